"""Limits of one user's requests, and of all requests at once.

- `policy`: the numbers, and how several processes share them
- `lanes`: requests of one cost at once, shared fairly among users
- `lateness`: how late the event loop is
- `rates`: limits the requests of a token, a user and a network in a minute
- `admission`: admits or refuses the requests of each route
"""
