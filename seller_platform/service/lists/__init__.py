"""The list endpoints: one route for each dataset, and the SQL of a page.

- `endpoints`: one route for each dataset
- `sql`: selects one page
- `rules`: what is true of one dataset only
- `velocity`: sales velocity of the inventory
- `replica`: what a replica never read
- `daily_totals`: kept counts by day
- `products`: product selectors
"""
