"""Requests over HTTP: sent, retried, bounded, and their answers checked.

- `api`: sends the requests of one connection
- `concurrency`: limits the requests under way
- `responses`: classifies answers: good, worth another attempt, or refused
- `retries`: repeats a request that failed, after a pause
"""
