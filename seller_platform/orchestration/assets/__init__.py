"""Assets of datasets, costs, reports, marts and exports, with their checks.

- `datasets`: one asset for each list
- `accounts`: discovery of accounts
- `authorization`: the check of the connections
- `cost_periods`: costs read, and written as a plan
- `reports`: report jobs followed and loaded
- `marts`: one asset for each mart
- `exports`: Parquet files
- `checks`: checks of loads
- `events`: materializations and evaluations of a partition
- `partition_loop`: the loop over the partitions of a run
- `freshness`: freshness policies
- `charts`: charts in metadata
"""
