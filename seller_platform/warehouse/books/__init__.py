"""The books: months of accounts that were closed, and the journal entries that were booked.

- `closing`: closes a month, and lists closed months
- `import_files`: booked lines as CSV files for QuickBooks and Xero
- `line_rows`: the rows of the ledger from which a line was summed
"""
