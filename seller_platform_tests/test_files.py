"""Tests that files are replaced atomically, with the requested permissions."""

import os
import stat
from pathlib import Path

import pytest

from seller_platform.files import (
    create_atomically,
    delete_leftovers,
    draft_folder_beside,
    replace_folder,
    replacing,
    write_atomically,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kept"
    path.write_bytes(b"old content")
    return path


def test_a_file_is_replaced_with_the_permissions_that_were_asked_for(file: Path) -> None:
    file.chmod(0o644)

    write_atomically(file, b"new", 0o600)

    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o600)
    assert names(file.parent) == ["kept"]


def test_a_new_file_has_the_permissions_less_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        write_atomically(tmp_path / "kept", b"new", 0o666)
    finally:
        os.umask(umask)

    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o640


def test_reserved_room_becomes_the_file_and_is_truncated(file: Path) -> None:
    room = file.with_name("room")
    room.write_bytes(bytes(4096))
    inode = room.stat().st_ino

    write_atomically(file, b"new", 0o600, room=room)

    assert (file.read_bytes(), file.stat().st_ino) == (b"new", inode)
    assert names(file.parent) == ["kept"]


def test_a_write_that_fails_leaves_the_old_content_and_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "a folder"
    target.mkdir()
    (target / "kept").touch()

    with pytest.raises(OSError, match="a folder"):
        write_atomically(target, b"new", 0o600)

    assert names(tmp_path) == ["a folder"]


def test_a_file_that_exists_is_not_created_again(file: Path) -> None:
    create_atomically(file, b"new", 0o600)
    create_atomically(file.with_name("other"), b"new", 0o600)

    assert (file.read_bytes(), file.with_name("other").read_bytes()) == (b"old content", b"new")
    assert names(file.parent) == ["kept", "other"]


def test_a_draft_is_deleted_when_its_block_ends_without_replacing_the_file(file: Path) -> None:
    with pytest.raises(KeyboardInterrupt), replacing(file, 0o600) as draft:
        draft.write_bytes(b"half")
        raise KeyboardInterrupt

    assert file.read_bytes() == b"old content"
    assert names(file.parent) == ["kept"]


def test_a_folder_that_cannot_be_replaced_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "file").touch()

    with pytest.raises(FileNotFoundError), draft_folder_beside(folder, 0o700) as drafts:
        replace_folder(folder, drafts / "no draft")

    assert names(tmp_path) == ["kept"]
    assert names(folder) == ["file"]


def test_leftovers_are_deleted_only_while_no_process_writes_in_the_folder(file: Path) -> None:
    leftover = file.with_name(".kept.0123456789abcdef")
    leftover.touch()
    file.with_name(".kept.txt").touch()

    with replacing(file.with_name("other"), 0o600):
        write_atomically(file, b"new", 0o600)
        while_another_writes = leftover.exists()
    delete_leftovers(file)

    assert while_another_writes
    assert names(file.parent) == [".kept.txt", "kept", "other"]
