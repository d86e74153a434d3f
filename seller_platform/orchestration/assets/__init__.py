"""Assets of datasets, costs, reports, marts and exports, with their checks.

- `datasets`: one asset for each list, and the freshness policies
- `accounts`: discovery of accounts
- `cost_periods`: costs read, and written as a plan
- `reports`: reports requested, polled and loaded
- `marts`: one asset for each mart
- `exports`: Delta tables
- `checks`: checks of datasets and marts, as rules over all slices and partitions
- `reporting`: loads and results of checks, reported without a run
- `sample`: the asset of comparisons at random
- `freshness`: checks that each account is read as often as scheduled
- `waits`: reports that a run waits for its upstream
- `run_titles`: the run tag that names the account
- `events`: materializations and evaluations of a partition
- `partition_loop`: a loop in which one failed partition does not stop the others
- `coverage`: what is stored of every account
- `descriptions`: descriptions of assets
"""
