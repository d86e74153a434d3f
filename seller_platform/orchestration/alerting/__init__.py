"""Alerts for failed checks and runs, grouped by cause, and for security events.

- `sensors`: the sensors of runs and checks
- `security`: the sensor of security events
- `delivery`: sends messages to the webhook
- `event_log`: failures read from Dagster's event log
- `causes`: failures grouped by their cause
"""
