"""The list endpoints: one route for each dataset, and the SQL of a page.

- `endpoints`: one route for each dataset
- `page_queries`: selects one page
- `velocity`: sales velocity of the inventory
- `state`: the loads and other facts that an answer depends on
- `pins`: the parameter `as_of`, which pins a walk to one moment
- `replica`: refuses what was never read of a replica
- `daily_totals`: answers from stored counts and sums
- `products`: finds the products that a request names
"""
