"""Slices replaced in one transaction, their receipts, and queries over receipts.

- `slices`: replaces a slice in one transaction, and makes it again what it was before a load
- `spool`: the rows of a slice between reading and storing
- `difference`: compares a reading with the stored rows
- `profiles`: rows by day and sums of amounts
- `day_changes`: how a reading differs from the stored rows, by day
- `holds`: the rules by which days of a reading contradict the stored rows and are held
- `judgement`: divides a reading into days that are published and days that are held
- `copy_format`: rows as lines of COPY
- `receipts`: slices, and the receipt of each load
- `days_due`: the days that were read, and those that are due
- `expectations`: what a load is expected to take
- `history_start`: the first day of history
- `refusals`: why slices could not be loaded
- `retention`: removes old snapshots and receipts
- `recounts`: counts of the rows that are stored now
"""
