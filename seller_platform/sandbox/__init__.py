"""Generated sellers, with rows whose numbers agree with each other.

- `capability`: what this folder contributes
- `commands`: `demo`, `dev` and `sandbox`
- `load`: fills a database in one transaction
- `live`: advances the sandbox day by day, with lists that are empty or short for a day
- `account_history`: the days of one account, one after the other
- `marketplaces`: marketplaces, accounts and exchange rates
- `catalogue`: products with parents and variants
- `late_changes`: the law of what still changes, after how many days
- `demand`: orders of a day, by product and price
- `orders`: orders and daily product sales
- `ledger`: transactions
- `stock`: stock, shipments, and their lists
- `notifications`: alerts on stock and prices
- `local_days`: local days and their timestamps
- `random_numbers`: random numbers that repeat for a seed
"""
