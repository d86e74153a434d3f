"""Source and replica compared.

- `queries`: what is asked of both
- `comparison`: how the answers differ
"""
