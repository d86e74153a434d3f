"""The tables of the warehouse.

- `tables`: one table for each dataset, receipts and accounts
- `currencies`: the decimals of amounts
- `creation`: creates tables and views, with their comments
- `functions`: the functions of schema `history`, and views
- `problems`: the view of what is wrong now
- `slice_problems`: what may be wrong with slices that were read
- `unread_slices`: what should have been read
- `readers`: roles that may only read
- `slices`: keeps the row of each slice
"""
