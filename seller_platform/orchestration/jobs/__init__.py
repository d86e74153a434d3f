"""Jobs for loads that a person asks for in the Launchpad, and for today's orders.

- `run_requests`: a backfill of months, and a refresh now
- `acceptance`: held readings that are accepted
- `acknowledgement`: problems that a person knows
- `cost_writes`: the costs of a plan
- `today`: today's orders, every 15 minutes where that is switched on
"""
