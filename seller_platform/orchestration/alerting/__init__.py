"""Alerts for failed checks and runs, grouped by cause.

- `sensors`: watch for failures and send messages
- `causes`: group failures by their cause
"""
