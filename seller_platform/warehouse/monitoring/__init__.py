"""What an operator watches: what is stored, how old it is, and measures for Prometheus.

- `coverage`: what should be stored, and what is
- `problems`: what is wrong, by slice or by reason, and events of which one alert is sent
- `settled_partitions`: partitions whose days have all settled, and their open errors
- `slice_states`: the state of every slice that should be stored
- `metrics`: measures of the warehouse: loads, accounts, slices, grants and requests, and which days changed
- `metrics_page`: the page of metrics that Prometheus reads
- `comparable_slices`: stored slices that the upstream can still be asked for
"""
