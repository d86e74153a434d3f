"""The statistics endpoint: views planned, summed and answered.

- `endpoint`: the route and its parameters
- `plan`: groupings, periods and the parameters of the statements
- `query`: the days compared with, and the query
- `sums`: sales, costs and fees summed
- `products`: the names of products
- `months`: sums of days by month, stored
- `stored`: the rows that a replica's upstream computed
- `output`: the rows of a page, encoded
"""
