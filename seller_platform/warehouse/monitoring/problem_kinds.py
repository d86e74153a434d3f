"""Every kind of problem, with what finds it: the view `platform.problems` is the union of these."""

from seller_platform.warehouse.connections.problems import ACCOUNTS, GRANTS
from seller_platform.warehouse.marts.tables import PROBLEMS as DERIVED
from seller_platform.warehouse.monitoring.repeated_ledgers import REPEATED
from seller_platform.warehouse.monitoring.sampling import DIFFERED
from seller_platform.warehouse.schema.problems import ProblemKind
from seller_platform.warehouse.schema.slice_problems import NOTED_SLICES, TRIED_SLICES
from seller_platform.warehouse.schema.unread_slices import UNREAD_SLICES

SOURCES = (TRIED_SLICES, UNREAD_SLICES, NOTED_SLICES, REPEATED, DIFFERED, GRANTS, ACCOUNTS, DERIVED)

KINDS: tuple[ProblemKind, ...] = tuple(kind for source in SOURCES for kind in source.kinds)
"""Every kind, in the order in which the documents list them."""
