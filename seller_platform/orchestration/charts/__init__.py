"""Charts in the metadata of events, as SVG images.

- `figures`: line charts and bar charts
- `history`: the rows of an account by month
- `heat_map`: what is stored, by account, month and dataset
"""
