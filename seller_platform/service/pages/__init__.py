"""HTML pages: login, sessions and documentation.

- `rendering`: templates, headers and static files
- `docs`: the documentation of the API
- `login`: login and log-out
- `sessions`: browser sessions
- `throttle`: limits failed logins
- `signed_in`: pages that need a login
"""
