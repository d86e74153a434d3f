"""What an operator watches: what is stored, how old it is, and measures for Prometheus.

- `coverage`: what should be stored, and what is
- `doubtful_slices`: slices of which a check may fail
- `problems`: what is wrong, by dataset and reason
- `mart_checks`: the results of the checks of marts
- `slice_states`: the state of every slice that should be stored
- `repeated_ledgers`: accounts of one seller that have the same ledger
- `restatements`: which stored days changed since a moment
- `zone_changes`: accounts with rows of a former time zone or currency
- `freshness`: the last reading of each dataset and account
- `metrics`: measures of the warehouse for Prometheus
- `comparable_slices`: stored slices that the upstream can still be asked for
- `sampling`: slices drawn at random, and the bound that follows from their comparisons
"""
