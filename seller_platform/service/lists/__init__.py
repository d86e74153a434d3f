"""The list endpoints: one route for each dataset, and the SQL of a page.

- `endpoints`: one route for each dataset
- `page_queries`: selects one page
- `rules`: what only one list has
- `velocity`: sales velocity of the inventory
- `state`: the loads and other facts that an answer depends on
- `pins`: the parameter `as_of`, which pins a walk to one moment
- `validators`: `ETag` and `If-None-Match`
- `replica`: refuses what was never read of a replica
- `daily_totals`: answers from stored counts and sums
- `products`: finds the products that a request names
"""
