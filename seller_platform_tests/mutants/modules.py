"""The modules whose mistakes tests must notice, and the folders or modules of the tests of each."""

from collections.abc import Mapping, Sequence

_LOADS = ("warehouse/loads", "ingest/loads/test_slices.py")
_LISTS = ("client/lists", "client/decoding", "client/endpoints", "ingest/loads/test_slices.py")

TESTS_OF: Mapping[str, Sequence[str]] = {
    "warehouse.loads.slices": (
        *_LOADS,
        "ingest/loads/test_known_pages.py",
        "warehouse/sums",
        "warehouse/monitoring/test_slice_states.py",
    ),
    "warehouse.loads.difference": (*_LOADS, "warehouse/sums"),
    "warehouse.loads.holds": _LOADS,
    "warehouse.loads.day_changes": _LOADS,
    "warehouse.loads.receipts": (*_LOADS, "ingest/loads/test_planner.py", "ingest/verification"),
    "warehouse.loads.retention": (*_LOADS, "service/lists/test_replica.py"),
    "warehouse.loads.copy_format": (*_LOADS, "warehouse/sums"),
    "warehouse.sums.keeping": ("warehouse/sums", "service/statistics", "warehouse/loads/test_slices.py"),
    "ingest.connections.token_rotation": ("ingest/connections",),
    "ingest.connections.request_budget": ("ingest/connections", "ingest/loads/test_slices.py"),
    "client.lists.pagination": _LISTS,
    "client.decoding.values": _LISTS,
    "client.decoding.pages": (*_LISTS, "ingest/loads/test_replaced_text.py"),
    "service.access": (
        "service/test_access.py",
        "service/lists/test_endpoints.py",
        "service/lists/test_replica.py",
        "service/oauth/test_consent_choices.py",
        "service/oauth/test_token_endpoint.py",
    ),
    "service.limits.rates": ("service/limits",),
}
"""By the name of a module below `seller_platform`, paths below `seller_platform_tests`."""
