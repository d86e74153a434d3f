"""What receipts and former rows say about the past.

- `changes`: rows that came, went and changed since a moment
- `provenance`: where a stored row came from
- `volumes`: how many rows a day usually has
- `settledness`: how much of a day still changes after how many days
"""
