"""Alerts: one message for each cause of problems, of security events and of failed runs.

They are kept in `platform.alerts` and sent to a webhook, by a sensor of Dagster or by `seller-platform alerts send`.

- `capability`: what this folder contributes
- `sending`: compares what is wrong with what was reported, and sends messages
- `failed_runs`: runs of Dagster that failed
- `security`: security events of the service
- `causes`: problems grouped by their cause
- `messages`: the texts of messages
- `webhook`: sends them
- `sensors`: the sensors of Dagster
- `commands`: `seller-platform alerts`
- `tables`: where they are kept
"""
