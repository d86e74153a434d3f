"""Slices replaced in one transaction, their receipts, and queries over receipts.

- `slices`: replaces a slice in one transaction
- `spool`: the rows of a slice between reading and storing
- `known_pages`: what is known of the pages of the last load
- `difference`: compares a reading with the stored rows
- `profiles`: rows by day and sums of amounts
- `plausibility`: says why a reading contradicts the stored rows
- `copy_format`: rows as lines of COPY
- `receipts`: the receipt of each load
- `expectations`: what a load is expected to take
- `history_start`: the first day of history
- `refusals`: why slices could not be loaded
- `provenance`: where a stored row came from
- `retention`: removes old snapshots and receipts
- `fingerprints`: digests of stored rows
- `recounts`: counts of the rows that are stored now
- `products`: the products of an account
"""
