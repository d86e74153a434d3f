"""Alerts for failed checks and runs, grouped by cause.

- `sensors`: watch for failures and send messages
- `event_log`: reads failures from Dagster's event log
- `causes`: group failures by their cause
"""
