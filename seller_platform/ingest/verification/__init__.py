"""Comparison of an upstream with a replica of it.

- `queries`: what is asked of both
- `answers`: the answers, read in one spelling
- `comparison`: how the answers differ
"""
