"""Alerts for problems of slices, failed runs and security events; those with one cause are one message.

- `sensors`: the sensors of problems and runs
- `security`: the sensor of security events
- `messages`: the texts of messages
- `delivery`: sends messages to the webhook
- `runs`: runs that failed for a reason that is no problem of a slice
- `causes`: failures grouped by their cause
"""
