"""Commands that show stored rows, their source and their changes.

- `explain`: the source of a stored row
- `held`: `held` and `accept`
- `history`: `diff` and `revert`
- `query`: SQL of a person
"""
