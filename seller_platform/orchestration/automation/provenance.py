"""What a materialization was computed from, in the tags that Dagster writes for results.

A materialization names the newest event that was stored before its inputs were read. An input whose rows changed later
has a newer event with another data version.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import dagster as dg

from seller_platform.orchestration.tags import CHANGED_ROWS

# Dagster's own tags: with them its UI shows partitions as outdated. It writes them for results only, which would give
# all partitions of a run the same.
_DATA_VERSION_TAG = "dagster/data_version"
_IS_USER_PROVIDED_TAG = "dagster/data_version_is_user_provided"
_CODE_VERSION_TAG = "dagster/code_version"
_INPUT_VERSION_TAG = "dagster/input_data_version/{}"
_INPUT_EVENT_TAG = "dagster/input_event_pointer/{}"
_NO_EVENT = "NULL"

_UNKNOWN = "unknown"
_LOADS = 1_000


def newest_event(instance: dg.DagsterInstance) -> int:
    """Return the number of the newest event; read it before the inputs."""
    # Dagster has no public name for it.
    return instance.event_log_storage.get_maximum_record_id() or 0


def input_versions(instance: dg.DagsterInstance, keys: Iterable[dg.AssetKey]) -> dict[dg.AssetKey, str]:
    """Return the data version of the newest materialization of each asset."""
    versions = {}
    for key in keys:
        event = instance.get_latest_materialization_event(key)
        tags = (event.tags if event else None) or {}
        versions[key] = tags.get(_DATA_VERSION_TAG, _UNKNOWN)
    return versions


def provenance_tags(
    rows_version: str, code_version: str, versions: Mapping[dg.AssetKey, str], read_after: int
) -> dict[str, str]:
    """Return the tags of a materialization.

    Args:
        rows_version: The version of the rows; the data version says which code computed them, too.
        versions: The data version of each input.
        read_after: The newest event that was stored before the inputs were read.
    """
    pointer = str(read_after) if read_after else _NO_EVENT
    return {
        _DATA_VERSION_TAG: f"{rows_version}.{code_version}",
        _IS_USER_PROVIDED_TAG: "true",
        _CODE_VERSION_TAG: code_version,
        **{_INPUT_VERSION_TAG.format(key.to_user_string()): version for key, version in versions.items()},
        **{_INPUT_EVENT_TAG.format(key.to_user_string()): pointer for key in versions},
    }


def read_after(tags: Mapping[str, str], inputs: Iterable[dg.AssetKey]) -> int | None:
    """Return the newest event before the inputs of a materialization were read; None if its tags do not say."""
    pointers = [tags.get(_INPUT_EVENT_TAG.format(key.to_user_string())) for key in inputs]
    if any(pointer is None for pointer in pointers):
        return None
    return min((0 if pointer == _NO_EVENT else int(pointer or 0) for pointer in pointers), default=None)


def code_version_of(tags: Mapping[str, str]) -> str | None:
    """Return the code version with which a materialization was computed."""
    return tags.get(_CODE_VERSION_TAG)


def stored_with_other_code(instance: dg.DagsterInstance, key: dg.AssetKey, code_version: str) -> set[str]:
    """Return the partitions whose newest materialization was computed with another code version."""
    newest = _data_versions(instance, key)
    return {partition for partition, version in newest.items() if not version.endswith(f".{code_version}")}


def has_changed(instance: dg.DagsterInstance, key: dg.AssetKey, *, after: int, until: int | None) -> bool:
    """Return whether a load changed the rows of an asset without partitions between two events.

    Its data version does not say so: each connection has one of its own.

    Args:
        after: The number of the first event.
        until: The number of the last event; None for the newest.
    """
    loads = dg.AssetRecordsFilter(key, after_storage_id=after, before_storage_id=None if until is None else until + 1)
    events = (record.asset_materialization for record in instance.fetch_materializations(loads, limit=_LOADS).records)
    changes = (event.metadata.get(CHANGED_ROWS) for event in events if event is not None)
    return any(change is None or bool(change.value) for change in changes)


def changed_partitions(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    *,
    after: int,
    until: int | None,
    among: Collection[str] | None = None,
) -> set[str]:
    """Return the partitions of an asset whose data version changed between two events.

    Args:
        after: The number of the first event.
        until: The number of the last event; None for the newest.
        among: The partitions to consider; None for all.
    """
    if among is not None and not among:
        return set()
    newer = _data_versions(instance, key, None if among is None else list(among), after, until)
    if not newer:
        return set()
    before = _data_versions(instance, key, list(newer), None, after)
    return {partition for partition, version in newer.items() if before.get(partition) != version}


def _data_versions(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    partitions: Sequence[str] | None = None,
    after: int | None = None,
    until: int | None = None,
) -> dict[str, str]:
    # One query for all partitions; the public way is a query for each.
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        key,
        dg.DagsterEventType.ASSET_MATERIALIZATION,
        [_DATA_VERSION_TAG],
        asset_partitions=partitions,
        after_cursor=after,
        before_cursor=None if until is None else until + 1,
    )
    return {partition: of_partition[_DATA_VERSION_TAG] for partition, of_partition in tags.items()}
