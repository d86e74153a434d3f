"""The modules whose mistakes tests must notice, and the folders or modules of the tests of each."""

from collections.abc import Mapping, Sequence

_LISTS = ("client/lists", "client/decoding", "client/endpoints")
_LOADS = "warehouse/loads"

TESTS_OF: Mapping[str, Sequence[str]] = {
    "warehouse.loads.slices": (
        *(f"{_LOADS}/test_{name}.py" for name in ("slices", "history", "holds", "null_keys")),
        "ingest/loads/test_known_pages.py",
        "ingest/loads/test_zone_changes.py",
        "warehouse/sums",
        "warehouse/monitoring/test_slice_states.py",
    ),
    "warehouse.loads.difference": tuple(
        f"{_LOADS}/test_{name}.py" for name in ("difference", "slices", "history", "copy_format", "null_keys")
    ),
    "warehouse.loads.holds": tuple(f"{_LOADS}/test_{name}.py" for name in ("hold_rules", "holds")),
    "warehouse.loads.day_changes": (f"{_LOADS}/test_day_changes.py", f"{_LOADS}/test_holds.py"),
    "warehouse.loads.receipts": (
        *(f"{_LOADS}/test_{name}.py" for name in ("receipts", "days_due", "holds")),
        "ingest/loads/test_planner.py",
    ),
    "warehouse.loads.retention": (f"{_LOADS}/test_retention.py",),
    "warehouse.loads.copy_format": tuple(f"{_LOADS}/test_{name}.py" for name in ("copy_format", "slices", "history")),
    "warehouse.sums.keeping": ("warehouse/sums", "service/statistics", "warehouse/loads/test_slices.py"),
    "ingest.connections.token_rotation": ("ingest/connections",),
    "ingest.connections.request_budget": ("ingest/connections/test_request_budget.py",),
    "client.lists.pagination": (*_LISTS, "ingest/loads/test_known_pages.py"),
    "client.decoding.values": ("client/decoding",),
    "client.decoding.pages": (*_LISTS, "ingest/loads/test_known_pages.py", "ingest/loads/test_replaced_text.py"),
    "service.access": (
        "service/test_access.py",
        "service/lists/test_endpoints.py",
        "service/lists/test_replica.py",
        "service/oauth/test_approvals_page.py",
        "service/oauth/test_consent_choices.py",
        "service/oauth/test_token_endpoint.py",
    ),
    "service.limits.rates": ("service/limits/test_rates.py",),
}
"""By the name of a module below `seller_platform`, paths below `seller_platform_tests`."""
