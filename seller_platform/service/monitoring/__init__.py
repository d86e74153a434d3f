"""Metrics for Prometheus and the status endpoint.

- `prometheus`: metrics for Prometheus
- `status`: the status endpoint
"""
