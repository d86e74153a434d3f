"""The state of the service for its operator.

- `prometheus`: metrics for Prometheus
- `report_counts`: report jobs by state
- `status`: the status endpoint
"""
