"""Assets of datasets and costs, and checks, also those of marts.

- `datasets`: one asset for each list
- `accounts`: discovery of accounts
- `derived`: assets whose partitions are made from those of others
- `checks`: checks of datasets and marts, as rules over all slices and partitions
- `reporting`: loads and results of checks, reported without a run
- `events`: assets of datasets, and the events of their partitions
- `coverage`: what is stored of every account
- `descriptions`: descriptions of assets
"""
