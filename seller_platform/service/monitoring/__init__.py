"""Metrics for Prometheus and the status endpoint.

- `prometheus`: metrics for Prometheus
- `report_counts`: report jobs by state
- `status`: the status endpoint
"""
