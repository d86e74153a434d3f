"""A marketplace seller's API, landed in PostgreSQL, checked, and served again.

- `agents`: answers to the questions of agents
- `alerts`: alerts by webhook
- `costs`: product costs written to the API
- `lake`: exports as Delta tables
- `ledgers`: accounts of one seller that have the same ledger
- `marts`: tables computed from the lists
- `books`: closed months, and journal entries that were booked
- `reports`: reports that the upstream writes
- `sampling`: comparisons with the upstream at random
- `cli`: the `seller-platform` command
- `dagster`: public names for other Dagster projects
- `reading`: stored rows as DataFrames, by the function `read`
- `orchestration`: Dagster's definitions
- `service`: the API served over HTTP from the warehouse
- `sandbox`: generated sellers
- `ingest`: loads from the API into the warehouse
- `client`: requests to the API
- `warehouse`: PostgreSQL, its tables and their SQL
- `contract`: what the API promises
- `settings`: settings read from the environment and the project file
- `project`: the folder of a project, and its file
- `logs`: logs as JSON
- `traces`: OpenTelemetry spans
- `network`: HTTP clients, with proxies and certificates
- `csv_files`: CSV files of an operator, read strictly
- `capabilities`: what folders beside the core contribute to it
- `commands`: how the commands in messages start
- `counts`: counts with their nouns
- `clocks`: the time, and moments that are past
- `files`: files replaced whole
- `interruption`: ends a command on Ctrl-C or SIGTERM
- `failpoints`: where tests end a process
- `errors`: every error raised on purpose

The names in `__all__` are for readers of the warehouse in Python, and for Dagster's list of components. Those for other
Dagster projects are in `dagster`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # pandas and SQLAlchemy take most of a second to import: a name imports its module on first use
    from seller_platform.orchestration.component import SellerPlatformComponent
    from seller_platform.reading import read

__version__ = "1.0.0"
__all__ = ["SellerPlatformComponent", "read"]

_MODULES = {"SellerPlatformComponent": "seller_platform.orchestration.component", "read": "seller_platform.reading"}


if not TYPE_CHECKING:  # for the type checker, other names do not exist

    def __getattr__(name: str) -> object:
        """Import the module of a public name on first use (PEP 562)."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)

    def __dir__() -> list[str]:
        """Return the public names, too: Dagster lists the components among them."""
        return sorted({*globals(), *__all__})
