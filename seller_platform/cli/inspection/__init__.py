"""Commands that show stored rows, their source and their changes, and note what a person knows of them.

- `acknowledge`: notes what a person knows
- `explain`: the source of a stored row
- `held`: `held` and `accept`
- `history`: `diff` and `revert`
- `query`: SQL of a person
"""
