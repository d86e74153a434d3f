"""The books: what an accountant books for each payout and month, and months that were closed.

- `capability`: what this folder contributes
- `settings`: which accounts entries are posted to
- `journal_accounts`: the account of the books of each entry of the ledger
- `chart_of_accounts`: the accounts and tax rates that an organisation has in Xero
- `journal_entries`: the mart with the entries that an accountant books
- `months`: lists the months, with payouts and what is owed
- `closing`: closes a month
- `problems`: what changed before the first closed month
- `line_rows`: the rows of the ledger from which a line was summed
- `explaining`: shows them
- `import_files`: booked lines as CSV files for QuickBooks and Xero
- `commands`: the commands about months
- `tables`: where it is stored
"""
