"""The statistics endpoint: views planned, summed and answered.

- `endpoint`: the route and its parameters
- `plan`: groupings, periods, the parameters of the statements and the names of products
- `query`: the days compared with, and the query
- `sums`: sales, costs and fees summed
- `months`: sums of days by month, stored
- `output`: the rows of a page, encoded
"""
