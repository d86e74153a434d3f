"""Alerts for what is wrong with slices, for failed runs and foreign checks, grouped by cause, and for security events.

- `sensors`: the sensors of problems, runs and checks
- `security`: the sensor of security events
- `delivery`: sends messages to the webhook
- `runs`: runs that failed for a reason that is no problem of a slice
- `foreign_checks`: failed checks of the project's own assets
- `causes`: failures grouped by their cause
"""
