"""Rules that place each entry of the ledger, with files of one's own.

- `formulas`: what counts towards profit, and the line of each entry
- `files`: YAML files of rules, read strictly
"""
