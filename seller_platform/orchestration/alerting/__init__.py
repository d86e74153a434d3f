"""Alerts for failed checks and runs, grouped by cause.

- `sensors`: the sensors, and the delivery of their messages
- `event_log`: failures read from Dagster's event log
- `causes`: failures grouped by their cause
"""
