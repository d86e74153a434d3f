"""What a materialization was computed from, in the tags by which Dagster's UI shows partitions as outdated.

Dagster writes them for results, not for events. A materialization names the newest event that was stored before its
inputs were read. An input whose rows changed later has a newer event with another data version.
"""

from collections.abc import Iterable, Mapping

import dagster as dg

_DATA_VERSION_TAG = "dagster/data_version"
_IS_USER_PROVIDED_TAG = "dagster/data_version_is_user_provided"
_CODE_VERSION_TAG = "dagster/code_version"
_INPUT_VERSION_TAG = "dagster/input_data_version/{}"
_INPUT_EVENT_TAG = "dagster/input_event_pointer/{}"
_NO_EVENT = "NULL"

_UNKNOWN = "unknown"


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
