"""Limits of one user's requests, and of all requests at once.

- `policy`: the numbers, and how several processes share them
- `admission`: admits or refuses the requests of each route, and counts them by token and user
"""
