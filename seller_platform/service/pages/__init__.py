"""HTML pages: login, password, sessions and documentation.

- `rendering`: templates, headers and static files
- `docs`: the documentation of the API
- `login`: login and log-out
- `password`: changes a password, and sets one by a link of the operator
- `sessions`: browser sessions
- `throttle`: limits failed logins
- `signed_in`: pages that need a login
"""
