"""Sums of stored rows, kept so that no answer has to read all rows.

- `keeping`: which sums are current, and the statements that write them
- `loads`: what a load does to them
- `statistics`: sales, fees and costs by product, month and day
- `costs`: the costs of products on each day, from their cost periods
"""
