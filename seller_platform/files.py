"""Replaces and creates files atomically: a reader sees the old or the new content, never a part."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex


def write_atomically(path: Path, content: bytes, mode: int, *, draft: Path | None = None) -> None:
    """Replace a file with new content, which is on disk when this returns.

    After a crash the file holds the old or the new content, whole.

    Args:
        mode: The permissions of a new file, before the process's umask.
        draft: An existing file in the same folder; its disk space is used, and it becomes the file.
    """
    with draft_beside(path, draft) as written:
        _write(written, content, mode)
        written.replace(path)
    _sync_folder(path.parent)


def create_atomically(path: Path, content: bytes, mode: int) -> None:
    """Create a file with its whole content, unless it exists.

    Of two processes that create it at the same time, one succeeds.
    """
    with draft_beside(path) as written:
        _write(written, content, mode)
        with suppress(FileExistsError):
            os.link(written, path)
    _sync_folder(path.parent)


def make_private_folder(folder: Path) -> None:
    """Create a folder that only its owner can enter, and those above it that are missing.

    A folder that exists keeps its permissions.
    """
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def free_room(folder: Path) -> str:
    """Return the free room on the disk of a folder in words; an empty text where it cannot be read."""
    try:
        return f"{shutil.disk_usage(folder).free / (1 << 20):.1f} MiB free"
    except OSError:
        return ""


def replace_folder(folder: Path, draft: Path, *, former: Path) -> None:
    """Move a folder to the path `former`, if it exists, and move the draft to its path.

    An error leaves the folder as it was. The caller defers signals, because one between the moves would not.
    """
    with suppress(FileNotFoundError):
        folder.rename(former)
    try:
        draft.rename(folder)
    except OSError:
        if former.exists():
            former.rename(folder)
        raise


@contextmanager
def draft_beside(path: Path, draft: Path | None = None) -> Iterator[Path]:
    """Yield the path of a temporary file in the same folder, and delete that file after the block.

    Inside the block, `draft.replace(path)` moves it into place.
    """
    draft = draft or path.with_name(f".{path.name}.{token_hex(8)}")
    try:
        yield draft
    finally:
        with suppress(OSError):
            draft.unlink()


def _write(path: Path, content: bytes, mode: int) -> None:
    # The file's present bytes are overwritten in place: the disk may have no room for more.
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, mode), "wb") as file:
            file.write(content)
            file.truncate()
            os.fsync(file.fileno())
    except OSError as error:  # that of a full disk names no file
        error.filename = error.filename or str(path)
        raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
