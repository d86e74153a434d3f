"""Comparison of an upstream with a replica of it.

- `queries`: what is asked of both
- `comparison`: how the answers differ
"""
