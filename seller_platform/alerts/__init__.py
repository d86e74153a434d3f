"""Alerts: one message for each cause of problems, of incidents and of failed runs.

They are kept in `platform.alerts` and sent to a webhook, by a sensor of Dagster or by `seller-platform alerts send`.

- `capability`: what this folder contributes
- `settings`: where they are sent
- `sending`: compares what is wrong with what was reported, and sends messages
- `messages`: the texts of messages, and the causes that group problems
- `webhook`: sends them
- `sensors`: the sensors of Dagster, and the messages about runs that failed
- `commands`: `seller-platform alerts`
- `tables`: where they are kept
"""
