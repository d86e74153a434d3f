"""What root needs for the embedded server: another user, and folders that this user can reach.

PostgreSQL refuses to run as root. Root's home folder is closed to other users and stays so, because it holds the key.
So the server's data lie in a folder of their own, and a copy of its programs if the other user cannot reach these.
"""

import fcntl
import os
import shutil
import stat
import subprocess
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from seller_platform.files import (
    delete,
    draft_folder_beside,
    make_folder,
    make_folders,
    replace_folder,
    write_atomically,
)

SERVER_USER = "seller-postgres"
DEFAULT_FOLDER = Path("/var/lib/seller-platform")

_OWNER_FILE = "home"
_USERS = Path("/etc/passwd")
"""The users of the machine. A new file replaces it with each new user, so who has waited for its lock looks again."""
DATA = "data"
"""In the folder of a server, its data or a link to it."""


def is_root() -> bool:
    """Whether this process runs as root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def server_user() -> tuple[int, int]:
    """Return the user and the group of root's servers. The user is created on first use, without a login shell.

    Raises:
        OSError: The user cannot be created.
    """
    import pwd  # Windows has no such module

    # `useradd` writes over a user that another `useradd` has just created, with another number.
    with _USERS.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(KeyError):
            entry = pwd.getpwnam(SERVER_USER)
            return entry.pw_uid, entry.pw_gid
        options = ("--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent")
        command = ["useradd", *options, "--shell", "/usr/sbin/nologin", SERVER_USER]
        try:
            subprocess.run(command, check=True, capture_output=True)  # systems keep it in other folders
        except FileNotFoundError:
            raise OSError(f"root needs the user {SERVER_USER} for it, and there is no program `useradd`") from None
        except subprocess.CalledProcessError as error:
            problem = error.stderr.decode(errors="replace").strip()
            raise OSError(f"the user {SERVER_USER} cannot be created: {problem}") from None
        entry = pwd.getpwnam(SERVER_USER)
        return entry.pw_uid, entry.pw_gid


def is_open_to_others(folder: Path) -> bool:
    """Whether any user may pass through a folder and all folders above it."""
    folder = folder.resolve()
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in (folder, *folder.parents))


def make_data_folder(servers: Path, folder: Path) -> Path:
    """Make a folder for the data of the server of `folder` among those of others; only its user can enter it.

    Raises:
        OSError: It cannot be made, or the server's user could not reach it.
    """
    user = server_user()
    _make_servers_folder(servers)
    own = servers / token_hex(8)
    make_folder(own, 0o711)
    data = own / DATA
    make_folder(data, 0o700)
    os.chown(data, *user)
    remember_folder(data, folder)
    return data


def remember_folder(data: Path, folder: Path) -> None:
    """Write the server's own folder beside its data, so that abandoned data can be named."""
    file = data.parent / _OWNER_FILE
    if not file.exists() or file.read_text() != f"{folder}\n":
        write_atomically(file, f"{folder}\n".encode(), 0o666)


def remove_data_folder(data: Path) -> None:
    """Delete the data of a server, and the folder that was made for it; no other folder, if a user moved the data."""
    if data.exists():
        shutil.rmtree(data)
    with suppress(OSError):
        delete(data.parent / _OWNER_FILE)
        data.parent.rmdir()


def abandoned_folders(servers: Path) -> list[tuple[Path, Path]]:
    """Return the folders with data of servers whose own folder no longer exists, each with that folder."""
    found = []
    for file in sorted(servers.glob(f"*/{_OWNER_FILE}")):
        folder = Path(file.read_text().rstrip("\n"))
        link = folder / DATA
        if not link.is_symlink() or link.readlink() != file.parent / DATA:
            found.append((file.parent, folder))
    return found


def reachable_programs(servers: Path, installed: Path) -> Path:
    """Return a folder with PostgreSQL's programs (`bin`, `lib` and `share`) that the server's user can run.

    Where `installed` is closed to other users, it is a copy of it. The programs look for their libraries beside the
    package that `installed` is part of, so the copy has the same folders.
    """
    package = installed.parent
    libraries = package.with_name(f"{package.name}.libs")
    folders = (installed, libraries) if libraries.is_dir() else (installed,)
    if all(is_open_to_others(folder) and all(map(_is_readable, folder.rglob("*"))) for folder in folders):
        return installed
    stamp = f"{folders}\n{(installed / 'bin' / 'postgres').stat().st_mtime_ns}"
    copied = servers / f"postgresql-{sha256(stamp.encode()).hexdigest()[:16]}"
    if not copied.exists():
        _make_servers_folder(servers)
        with draft_folder_beside(copied, 0o700) as drafts:
            draft = drafts / copied.name
            for folder in folders:
                shutil.copytree(folder, draft / folder.relative_to(package.parent), symlinks=True)
            for path in (draft, *draft.rglob("*")):
                if not path.is_symlink():
                    path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
            if not copied.exists():  # another process may have made the copy meanwhile
                replace_folder(copied, draft)
    return copied / installed.relative_to(package.parent)


def _make_servers_folder(servers: Path) -> None:
    if not servers.exists():
        make_folders(servers, 0o755)
        servers.chmod(0o755)  # a new folder, whatever the umask
    status = servers.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError(f"{servers} must be a folder of root into which no other user may write; `chown` and `chmod` it")
    if not is_open_to_others(servers):
        raise OSError(
            f"the user {SERVER_USER} cannot reach {servers}; set SELLER_PLATFORM_ROOT_DATA_FOLDER to a folder that "
            "every user can pass through"
        )


def _is_readable(path: Path) -> bool:
    needed = stat.S_IXOTH | stat.S_IROTH if path.is_dir() else stat.S_IROTH
    return path.is_symlink() or path.stat().st_mode & needed == needed
