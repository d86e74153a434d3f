"""Requests over HTTP: sent, retried, bounded, and their answers checked.

- `api`: sends the requests of one connection, within those of a day
- `bodies`: reads bodies: encodings, charsets, limits and ends
- `characters`: replaces text that PostgreSQL does not store
- `concurrency`: limits the requests under way
- `responses`: classifies answers: good, worth another attempt, or refused
- `retries`: repeats a request that failed, after a pause
"""
