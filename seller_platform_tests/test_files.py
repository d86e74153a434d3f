"""Tests that files are replaced atomically, with the requested permissions."""

import errno
import os
import stat
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from seller_platform.failpoints import reach
from seller_platform.files import (
    create_atomically,
    delete_leftovers,
    draft_folder_beside,
    make_folder,
    replace_folder,
    replacing,
    write_atomically,
)
from seller_platform.warehouse.connections.secrets import new_key, secret_box
from seller_platform_tests.support.power_loss import recorded, restore, unsynced


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


def test_a_file_that_exists_is_not_created_again(file: Path) -> None:
    with recorded(file.parent) as recording:
        is_new = create_atomically(file, b"new", 0o600)
    create_atomically(file.with_name("other"), b"new", 0o600)

    assert not is_new
    assert ("fsync", str(file.parent)) in recording.calls
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


def write(folder: Path, content: bytes) -> None:
    write_atomically(folder / "file", content, 0o600)


def write_in_room(folder: Path, content: bytes) -> None:
    write_atomically(folder / "room", bytes(64), 0o600)
    write_atomically(folder / "file", content, 0o600, room=folder / "room")


def replace_with_a_folder(folder: Path, content: bytes) -> None:
    with draft_folder_beside(folder / "file", 0o700) as drafts:
        make_folder(drafts / "draft", 0o700)
        make_folder(drafts / "draft" / "parts", 0o700)
        for name in ("draft/contents", "draft/parts/1"):
            (drafts / name).write_bytes(content)
        replace_folder(folder / "file", drafts / "draft")


WRITES = (write, write_in_room, replace_with_a_folder)


def content_of(folder: Path) -> bytes | None:
    """Return what the file, or every file of the folder, holds for the process after a crash."""
    file = folder / "file"
    delete_leftovers(file)
    delete_leftovers(folder / "room")
    assert set(names(folder)) <= {"file", "room"}
    if file.is_dir():
        assert sorted(str(path.relative_to(file)) for path in file.rglob("*")) == ["contents", "parts", "parts/1"]
        (content,) = {path.read_bytes() for path in file.rglob("*") if path.is_file()}
        return content
    return file.read_bytes() if file.exists() else None


@pytest.mark.parametrize("change", WRITES)
def test_after_a_power_loss_the_content_is_old_or_new(tmp_path: Path, change: Callable[[Path, bytes], None]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with unsynced(), recorded(folder, observe=lambda recording: len(recording.reached)) as recording:
        for content in (b"one", b"two"):
            change(folder, content)
            reach(content.decode())

    seen = set()
    for number, (returned, tree) in enumerate(recording.states):
        with unsynced():
            left = content_of(restore(tree, tmp_path / str(number)))
        assert left in [None, b"one", b"two"][returned : returned + 2], tree
        seen.add((returned, left))

    assert seen == {(0, None), (0, b"one"), (1, b"one"), (1, b"two"), (2, b"two")}


def test_a_file_that_is_not_synced_may_be_empty_cut_or_zeros(file: Path) -> None:
    with recorded(file.parent) as recording:
        draft = file.with_name("draft")
        draft.write_bytes(b"new")
        os.replace(draft, file)  # noqa: PTH105  # recorded by this name

    contents = {dict(tree).get("kept") for _, tree in recording.states}
    assert contents == {b"old content", b"", b"n", bytes(3), b"new"}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=os.strerror)
@pytest.mark.parametrize("change", WRITES)
def test_a_call_that_fails_leaves_the_old_or_the_new_content(
    tmp_path: Path, change: Callable[[Path, bytes], None], number: int
) -> None:
    error: OSError | None = None
    for call in count():
        folder = tmp_path / str(call)
        folder.mkdir()
        change(folder, b"one")
        with unsynced(), recorded(folder, fails=(call, number)) as recording:
            try:
                change(folder, b"two")
            except OSError as raised:
                error = raised
        if call >= len(recording.calls):
            break

        if error is not None:
            assert str(folder) in str(error)
            assert f"{os.strerror(number)} ({recording.calls[call][0]} of " in str(error)
        assert content_of(folder) in (b"one", b"two")[error is None :]
        change(folder, b"three")
        assert content_of(folder) == b"three"
        error = None
    assert call > 5


def test_after_a_power_loss_the_key_that_was_used_is_there(tmp_path: Path) -> None:
    _assert_key_is_kept(tmp_path, lambda home: None)


def test_the_key_that_another_process_has_not_synced_is_synced(tmp_path: Path) -> None:
    def create(home: Path) -> None:
        home.mkdir()
        draft = home / ".secret.key.0123456789abcdef"
        with draft.open("w") as stream:
            stream.write(new_key())
            stream.flush()
            os.fsync(stream.fileno())
        os.link(draft, home / "secret.key")  # recorded by this name

    _assert_key_is_kept(tmp_path, create)


def _assert_key_is_kept(tmp_path: Path, of_another_process: Callable[[Path], None]) -> None:
    home = tmp_path / "home"
    sealed: list[bytes] = []
    with unsynced(), recorded(tmp_path, observe=lambda _: tuple(sealed)) as recording:
        of_another_process(home)
        sealed.append(secret_box(home, None).seal(b"a secret"))
        reach("sealed")

    for number, (secrets, tree) in enumerate(recording.states):
        with unsynced():
            found = restore(tree, tmp_path / str(number)) / "home"
            box = secret_box(found, None)
        for secret in secrets:
            assert box.open(secret, "the secret") == b"a secret"
        assert names(found) == ["secret.key"]
    assert {secrets for secrets, _ in recording.states} == {(), tuple(sealed)}
