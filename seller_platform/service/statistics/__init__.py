"""The statistics endpoint: views planned, summed and answered.

- `endpoint`: the route and its parameters
- `plan`: groupings, periods and the parameters of the statements
- `query`: runs the query
- `sums`: sales, costs and fees summed
- `products`: the names of products
- `months`: sums of days by month, stored
- `stored`: the rows that a replica's upstream computed
- `spans`: the days summed and those compared with
- `output`: the rows of a page, encoded
"""
