"""Alerts for failed checks and runs.

- `sensors`: watch for failures and send messages
- `causes`: group failures by their cause
"""
