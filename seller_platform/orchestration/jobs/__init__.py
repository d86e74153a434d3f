"""Jobs for loads that a person asks for in the Launchpad, and for today's orders.

- `loading`: asks for loads, and lets history begin earlier
- `decisions`: held readings that are accepted, and problems that a person knows
- `today`: today's orders, every 15 minutes where that is switched on
"""
