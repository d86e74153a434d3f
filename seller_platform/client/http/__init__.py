"""Requests over HTTP: sent, retried, bounded, and their answers checked.

- `api`: sends the requests of one connection
- `concurrency`: bounds the requests under way
- `responses`: turns answers and failures into rows or errors
- `retries`: decides what is asked again, and when
"""
