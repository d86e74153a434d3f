"""Rules that place each entry of the ledger, with files of one's own.

- `formulas`: what counts towards profit, and the line of each entry
- `payouts`: what was paid out, and the day on which to expect the next payout
- `files`: YAML files of rules, read strictly
"""
