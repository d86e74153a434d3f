"""Exported tables as what is derived from datasets and marts."""

from hashlib import sha256

from seller_platform.warehouse.derived.due import Derived, DerivedInput
from seller_platform.warehouse.readers.relations import Source, relation_of

_VERSION_DIGITS = 12


def exported_to(source: Source, folder: str) -> Derived:
    """Return the exported table of a dataset or a mart, whose partitions follow its slices or builds.

    Args:
        folder: That of all exported tables: a path, or a URL in an object store.
    """
    relation = relation_of(source)
    columns = [(column.name, column.kind.name) for column in source.columns]
    return Derived(
        source.name,
        sha256(repr(columns).encode()).hexdigest()[:_VERSION_DIGITS],
        relation.is_monthly,
        (DerivedInput(source.name, is_monthly=relation.is_monthly),),
        folder=folder,
        is_of_all=not relation.has_account_parts,
    )
