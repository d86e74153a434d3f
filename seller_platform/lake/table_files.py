"""The files of a Delta table in a folder: synced once they are committed, and looked at before the next commit.

The library that writes them syncs nothing. So a commit counts only once its files are synced, and a power loss before
that may leave a part of it.
"""

import json
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from seller_platform.files import delete, sync_written

LOG = "_delta_log"
_NEWEST_CHECKPOINT = "_last_checkpoint"
_MARK = b"PAR1"
_UNSYNCED = 2
"""The most commits before a sync: one of an export, one of a compaction, two of a vacuum."""


def sync_commits(table: Path, first: int, last: int) -> None:
    """Sync the files of commits of a table, and the folders that hold them."""
    commits = [table / LOG / f"{version:020}.json" for version in range(first, last + 1)]
    added = {table / unquote(added["path"]) for commit in commits for added in _added(commit)}
    sync_written(table, [*sorted(added), *commits])


def sync_checkpoint(table: Path, version: int) -> None:
    """Sync the checkpoint of the newest version of a table, and the file that names it if there is one."""
    named = table / LOG / _NEWEST_CHECKPOINT
    sync_written(table, [table / LOG / f"{version:020}.checkpoint.parquet", *[named][: named.exists()]])


def delete_torn_commits(table: Path) -> None:
    """Delete the newest commits of a table that a power loss has left in part; nothing can read the table with them.

    Checkpoints of their versions or later are deleted, too, and the newest one if it was left in part. Then engines
    read the commits that it stands for: they are deleted only once it is synced.
    """
    log = table / LOG
    newest = sorted(log.glob("*.json"), reverse=True)[:_UNSYNCED]
    torn = list(takewhile(lambda commit: not _is_whole(table, commit), newest))
    checkpoints = sorted(log.glob("*.checkpoint.parquet"), reverse=True)
    lost = [each for each in checkpoints if torn and each.name[:20] >= torn[-1].name[:20]]
    lost += [each for each in checkpoints[:1] if each not in lost and not _is_parquet(each)]
    kept = {f'"version":{int(each.name[:20])},' for each in checkpoints if each not in lost}
    named = log / _NEWEST_CHECKPOINT
    # Engines do without this file, but not without the checkpoint that it names.
    if named.exists() and not any(each in named.read_text(errors="replace") for each in kept):
        lost.insert(0, named)
    for file in (*lost, *torn):
        delete(file)


def _is_whole(table: Path, commit: Path) -> bool:
    try:
        added = {table / unquote(each["path"]): each["size"] for each in _added(commit)}
        return all(file.stat().st_size == size and _is_parquet(file) for file, size in added.items())
    except (FileNotFoundError, ValueError):
        return False


def _is_parquet(file: Path) -> bool:
    """Return whether a file has the marks of Parquet at both ends; zeros of the same length have none."""
    with file.open("rb") as stream:
        first = stream.read(len(_MARK))
        stream.seek(max(file.stat().st_size - len(_MARK), 0))
        return first == stream.read() == _MARK


def _added(commit: Path) -> Iterator[dict[str, Any]]:
    """Yield the files that a commit adds.

    Raises:
        ValueError: It is no commit.
    """
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    if not actions:
        raise ValueError("the commit is empty")
    for action in actions:
        if "add" in action:
            yield action["add"]
