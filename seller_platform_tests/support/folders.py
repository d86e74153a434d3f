"""Temporary folders that root's PostgreSQL servers, which run as another user, can reach."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT_DATA = "SELLER_PLATFORM_ROOT_DATA_FOLDER"


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield a folder that every user can pass through, and delete it after the block.

    Without a test run, the data of root's servers whose home is closed goes into it, too.
    """
    folder = Path(tempfile.mkdtemp(prefix="seller-platform-tests-", dir=parent))
    folder.chmod(0o755)
    is_alone = ROOT_DATA not in os.environ
    if is_alone:
        os.environ[ROOT_DATA] = str(folder / "servers")
    try:
        yield folder
    finally:
        if is_alone:
            del os.environ[ROOT_DATA]
        shutil.rmtree(folder, ignore_errors=True)
