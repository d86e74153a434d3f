"""Two made-up versions after this one, whose migrations prove what every upgrade relies on.

`python -m seller_platform_tests.next_versions 1 --database URL` upgrades a database while programs of this version use
it. The first adds columns and an index, the second rewrites a table.

- `versions`: their migrations
"""

from collections.abc import Sequence

from seller_platform.warehouse.migrations.upgrade import Migration, released

_MODULES = ("1001_gifts", "1002_order_cents")
NEWEST = len(_MODULES)


def migrations(number: int = NEWEST) -> Sequence[Migration]:
    """Return the migrations of this program and those of the next versions, up to a number from 1."""
    return [*released(), *(Migration.of(f"{__name__}.versions.{name}") for name in _MODULES[:number])]
