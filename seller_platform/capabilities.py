"""The capabilities: everything beside the core, each in a folder that can be removed.

The core loads, keeps, judges, shows and reports slices. A capability is a folder of this package, whose module
`capability` declares in `CAPABILITY` what it contributes. References are texts, `module:name`, which are imported on
first use: a command starts without what it does not need. The core imports no capability; this module alone knows them
by name, and leaves out those whose folder is absent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

NAMES = ("agents", "alerts", "costs", "lake", "ledgers", "marts", "books", "reports", "sampling", "sandbox", "service")
"""In the order in which what they contribute is listed."""

COVERAGE, ORDERS_TODAY = "coverage", "orders_today"
"""What the core's component of Dagster brings beside datasets."""


@dataclass(frozen=True)
class Capability:
    """What a folder contributes to the core.

    Attributes:
        name: That of the folder.
        needs: Other capabilities whose public names it imports.
        commands: The module of each command, and its sentence in `--help`.
        demonstrations: Those that make the data of `--demo`, which is no option of them; `--help` lists them first.
        endless: Those that run until a signal ends them, which is no failure, with their words.
        modes: Options of `sync` that load something else: of each a function of the installation and the output, which
            returns what it loaded and the sentences to print, and its sentence in `--help`.
        explains: Of tables that `explain` may be asked about, a function of the key, the account and the output.
        marts: A function of the settings, which returns its marts: None stands for the rules of the product.
        settings: A subclass of `Settings` with its own.
        schemas: Those of its tables, with their comments.
        tables: A module; imported, its tables join those of the database.
        problems: A `ProblemSource`: what may be wrong, as rows of `platform.problems`.
        rules: `SliceRule`s: further checks of datasets in Dagster.
        definitions: A function of a component as it is mounted, which returns its `Contribution` in Dagster.
        extras: What the attribute `datasets` of a component may name beside datasets.
        examine: A function of database and settings, which yields `Finding`s of `doctor`.
        prune_files: A function of database, settings and `dry`, which deletes old files and returns how many.
        retention: `Expiring`s: what `prune` deletes.
        reserved: A SELECT of how many requests of `:connection` are kept for it, where they have a budget.
        incidents: A function of the settings and a moment, which returns `Incident`s, of which alerts are sent.
        routes: A class of endpoints that the service answers from a warehouse, if its operator wants it.
        evidence: A function of the database, a moment and keys of accounts, which returns the `Evidence` of how many
            slices differ from the upstream.
        upstream: A function of the settings, which returns a context in which their upstream answers.
        on_open: A function of a connection and a `Slice`, called before a load reads it, in a transaction of its own.
        on_publish: A function of a connection, a `Slice`, its `Receipt` and its `SliceChange`, called in the
            transaction of a load that changed rows.
        after_loads: A function of the database and the receipts of loads that a command or a step has made.
    """

    name: str
    needs: tuple[str, ...] = ()
    commands: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    demonstrations: tuple[str, ...] = ()
    endless: tuple[str, ...] = ()
    modes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    explains: Mapping[str, str] = field(default_factory=dict)
    marts: str | None = None
    settings: str | None = None
    schemas: Mapping[str, str] = field(default_factory=dict)
    tables: str | None = None
    problems: str | None = None
    rules: str | None = None
    definitions: str | None = None
    extras: tuple[str, ...] = ()
    incidents: str | None = None
    routes: str | None = None
    examine: str | None = None
    prune_files: str | None = None
    retention: str | None = None
    reserved: str | None = None
    evidence: str | None = None
    upstream: str | None = None
    on_open: str | None = None
    on_publish: str | None = None
    after_loads: str | None = None


@cache
def capabilities() -> tuple[Capability, ...]:
    """Return the capabilities whose folders are there."""
    here = Path(__file__).parent
    return tuple(
        import_module(f"{__package__}.{name}.capability").CAPABILITY for name in NAMES if (here / name).is_dir()
    )


def contributed(hook: str) -> Iterator[Any]:
    """Yield what capabilities contribute by a hook, imported.

    Args:
        hook: The name of an attribute of `Capability`.
    """
    for capability in capabilities():
        if reference := getattr(capability, hook):
            yield referred(reference)


def extras() -> tuple[str, ...]:
    """Return what a component of Dagster brings beside datasets, by the names that `datasets` may have, too."""
    return (COVERAGE, ORDERS_TODAY, *(name for each in capabilities() for name in each.extras))


def referred(reference: str) -> Any:
    """Return the module, or what of it, that a text `module` or `module:name` names."""
    module, _, name = reference.partition(":")
    imported = import_module(module)
    return getattr(imported, name) if name else imported
