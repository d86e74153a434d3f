"""Exchange rates and products, which no list contains: an operator loads them from CSV files.

- `rates`: exchange rates
- `products`: products, with their parents, offers and lead times
"""
