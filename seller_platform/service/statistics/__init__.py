"""The statistics endpoint: views planned, summed and answered.

- `endpoint`: the route and its parameters
- `plan`: what is grouped by what
- `query`: runs the query
- `sums`: sales, costs and fees summed
- `products`: facts of products beside the sums
- `rates`: exchange rates
- `spans`: the days compared
- `output`: rows as they are answered
"""
