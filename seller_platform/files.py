"""The only module that writes files to keep: after a power loss each has its old or its new content, whole.

Content is synced before it gets its name, and the folder afterwards; what was written when a call returns is on disk.
After a failure nothing is synced a second time, because the kernel may report success for pages that it has dropped:
the content is written anew, to another file. An OSError names the file; and the call, if the disk failed or is full.

A draft has the name of its file, with a dot before and 16 hexadecimal digits behind it. Its writer holds a shared lock
on the folder. So whoever gets that lock alone deletes the drafts that a crash has left.
"""

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

_FORMER = "former"
_DISK_ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CANNOT_SYNC_FOLDERS = (errno.EBADF, errno.EINVAL, errno.EACCES)
"""Errors of file systems that sync no folders, or none of other users. PostgreSQL passes over the same ones."""


def write_atomically(path: Path, content: bytes, mode: int, *, room: Path | None = None) -> None:
    """Replace a file with new content, which is on disk when this returns.

    After a crash the file holds the old or the new content, whole.

    Args:
        mode: The permissions of a new file, before the process's umask.
        room: An existing file in the same folder; its disk space is used, and it becomes the file. If its disk space
            cannot be written, the content is written to a new file.
    """
    if room is not None:
        with suppress(OSError):
            descriptor = os.open(room, os.O_WRONLY)
            try:
                _write(descriptor, content, path)
                _publish(room, descriptor, path)
            finally:
                os.close(descriptor)
            return
    with _draft_beside(path, mode) as (draft, descriptor):
        _write(descriptor, content, path)
        _publish(draft, descriptor, path)


def create_atomically(path: Path, content: bytes, mode: int) -> bool:
    """Create a file with its whole content, unless it exists, and return whether it did not.

    Of two processes that create it at the same time, one succeeds; for both the file is on disk when this returns.
    """
    with _draft_beside(path, mode) as (draft, descriptor):
        _write(descriptor, content, path)
        _call(path, os.fsync, descriptor)
        is_new = True
        try:
            _call(path, os.link, draft, path)
        except FileExistsError:
            is_new = False
        _sync_folder(path.parent)
        return is_new


@contextmanager
def replacing(path: Path, mode: int) -> Iterator[Path]:
    """Yield the path of an empty file in the same folder, and replace a file with it after the block.

    An error in the block leaves the file as it was.

    Args:
        mode: The permissions of the file, before the process's umask.
    """
    with _draft_beside(path, mode) as (draft, descriptor):
        yield draft
        _publish(draft, descriptor, path)


def write_for_this_start(path: Path, text: str) -> None:
    """Write a file in place that each start writes again; after a crash it may hold anything until then."""
    path.write_text(text)


def sync_written(top: Path, files: Iterable[Path]) -> None:
    """Sync files that other code has written below a folder, the folders between, and that of the folder itself."""
    folders = dict[Path, None]()
    for file in files:
        _sync(file)
        folders |= dict.fromkeys(each for each in file.parents if each == top or top in each.parents)
    for folder in (*folders, top.parent):
        _sync_folder(folder)


def open_lock(path: Path) -> IO[str]:
    """Open the file of a lock, which has no content and is created on first use."""
    return path.open("a+")


def delete(*paths: Path) -> None:
    """Delete files of one folder, and drafts that a crash has left; they do not come back after the next crash.

    A file may be missing.
    """
    for path in paths:
        with suppress(FileNotFoundError), _name_beside(path):
            _call(path, os.unlink, path)
    with suppress(FileNotFoundError):
        _sync_folder(paths[0].parent)


def make_folder(folder: Path, mode: int) -> None:
    """Create a folder, which is on disk when this returns.

    Raises:
        FileExistsError: It exists.
    """
    _call(folder, os.mkdir, folder, mode)
    _sync_folder(folder.parent)


def make_link(link: Path, target: Path) -> None:
    """Create a symbolic link, which is on disk when this returns.

    Raises:
        FileExistsError: It exists.
    """
    _call(link, os.symlink, target, link)
    _sync_folder(link.parent)


def make_folders(folder: Path, mode: int = 0o700) -> None:
    """Create a folder, and those above it that are missing; by default only their owner can enter them.

    A folder that exists keeps its permissions.
    """
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        with suppress(FileExistsError):
            make_folder(missing, mode)


@contextmanager
def draft_folder_beside(folder: Path, mode: int) -> Iterator[Path]:
    """Yield the path of a new, empty folder beside another one, and delete it after the block.

    In it a draft is written, for `replace_folder`.
    """
    with _name_beside(folder) as draft:
        _call(folder, os.mkdir, draft, mode)
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def replace_folder(folder: Path, draft: Path) -> None:
    """Move a draft to the path of a folder, whose former content is moved beside the draft.

    An error leaves the folder as it was. After a crash between the two moves `delete_leftovers` moves it back.

    Args:
        draft: A folder inside of one of `draft_folder_beside`.
    """
    for path in (*(each for each in draft.rglob("*") if not each.is_symlink()), draft):
        _sync(path)
    former = draft.with_name(_FORMER)

    def sync_both() -> None:
        for parent in (draft.parent, folder.parent):
            _sync_folder(parent)

    sync_both()
    with suppress(FileNotFoundError):
        _call(folder, os.rename, folder, former)
    try:
        sync_both()
        _call(folder, os.rename, draft, folder)
    except OSError:
        if former.exists():
            former.rename(folder)
        raise
    sync_both()


def delete_leftovers(path: Path) -> None:
    """Delete drafts of a file or folder that a crash has left; a former folder is moved back if there is no new one."""
    with _name_beside(path):
        pass


@contextmanager
def _draft_beside(path: Path, mode: int) -> Iterator[tuple[Path, int]]:
    """Yield a new file in the same folder with its descriptor, and delete it after the block unless it was moved."""
    with _name_beside(path) as draft:
        descriptor = _call(path, os.open, draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            yield draft, descriptor
        finally:
            os.close(descriptor)
            with suppress(OSError):
                draft.unlink()


@contextmanager
def _name_beside(path: Path) -> Iterator[Path]:
    """Yield a new name for a draft, which is no leftover during the block; delete those that are.

    Raises:
        FileExistsError: The path is that of a device or pipe, which a file must not replace.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileExistsError(errno.EEXIST, "it is no file", str(path))
    try:
        folder = _call(path.parent, os.open, path.parent, os.O_RDONLY)
    except PermissionError:  # one that may only be written
        yield _new_name(path)
        return
    try:
        with suppress(OSError):  # another process writes in it, or its file system has no such locks
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _delete_drafts(path)
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_SH)
        yield _new_name(path)
    finally:
        os.close(folder)


def _new_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{token_hex(8)}")


def _delete_drafts(path: Path) -> None:
    names = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}")
    for draft in [each for each in path.parent.iterdir() if names.fullmatch(each.name)]:
        if not draft.is_dir():
            draft.unlink()
            continue
        if (draft / _FORMER).exists() and not path.exists():
            (draft / _FORMER).rename(path)
            _sync_folder(path.parent)
        shutil.rmtree(draft)


def _write(descriptor: int, content: bytes, path: Path) -> None:
    # The file's present bytes are overwritten in place: the disk may have no room for more.
    rest = memoryview(content)
    while rest:
        rest = rest[_call(path, os.write, descriptor, rest) :]
    _call(path, os.ftruncate, descriptor, len(content))


def _publish(draft: Path, descriptor: int, path: Path) -> None:
    """Sync a draft by a descriptor that was opened before it was written, and move it into place."""
    _call(path, os.fsync, descriptor)
    _call(path, os.replace, draft, path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    try:
        _sync(folder)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC_FOLDERS:
            raise


def _sync(path: Path) -> None:
    descriptor = _call(path, os.open, path, os.O_RDONLY)
    try:
        _call(path, os.fsync, descriptor)
    finally:
        os.close(descriptor)


def _call(path: Path, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the module `os`; its error names the path, and the function if the disk failed or is full."""
    try:
        return function(*arguments)
    except OSError as error:
        call = f" ({function.__name__} of {path.name})" if error.errno in _DISK_ERRORS else ""
        raise OSError(error.errno, f"{error.strerror}{call}", str(path)) from error
