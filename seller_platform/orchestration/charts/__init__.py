"""Charts in the metadata of events, as SVG images.

- `figures`: line charts and bar charts
- `heat_map`: what is stored, by account, month and dataset
"""
