"""What receipts and former rows say about the past.

- `changes`: rows that came, went and changed since a moment
- `provenance`: where a stored row came from
- `reverts`: makes a slice what it was before a load
- `volumes`: how many rows a day usually has
- `settledness`: how much of a day still changes after how many days
"""
