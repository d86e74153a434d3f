"""The files of a Delta table in a folder, synced once they are committed: the library that writes them syncs nothing.

A power loss before that may leave a part of a commit, which nothing can read.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from seller_platform.files import sync_written

LOG = "_delta_log"
_NEWEST_CHECKPOINT = "_last_checkpoint"


def sync_commits(table: Path, first: int, last: int) -> None:
    """Sync the files of commits of a table, and the folders that hold them."""
    commits = [table / LOG / f"{version:020}.json" for version in range(first, last + 1)]
    added = {table / unquote(added["path"]) for commit in commits for added in _added(commit)}
    sync_written(table, [*sorted(added), *commits])


def sync_checkpoint(table: Path, version: int) -> None:
    """Sync the checkpoint of the newest version of a table, and the file that names it if there is one."""
    named = table / LOG / _NEWEST_CHECKPOINT
    sync_written(table, [table / LOG / f"{version:020}.checkpoint.parquet", *[named][: named.exists()]])


def _added(commit: Path) -> Iterator[dict[str, Any]]:
    """Yield the files that a commit adds."""
    for line in commit.read_text().splitlines():
        if added := json.loads(line).get("add"):
            yield added
