"""Alerts for problems of slices, failed runs, foreign checks and security events; those with one cause are one message.

- `sensors`: the sensors of problems, runs and checks
- `security`: the sensor of security events
- `messages`: the texts of messages
- `delivery`: sends messages to the webhook
- `runs`: runs that failed for a reason that is no problem of a slice
- `foreign_checks`: failed checks of the project's own assets
- `causes`: failures grouped by their cause
"""
