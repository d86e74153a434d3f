"""Checks of this machine: folders, key, disks and settings."""

import shutil
import stat
import tempfile
from collections.abc import Iterator
from datetime import date
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from shlex import quote

from seller_platform import __version__
from seller_platform.cli.doctor.findings import Finding, fail, ok, warn
from seller_platform.counts import count_of
from seller_platform.errors import InvalidSettingError
from seller_platform.settings import Settings, origins
from seller_platform.warehouse.connections.secrets import key_file, split_keys
from seller_platform.warehouse.postgres.root_user import abandoned_folders, is_root
from seller_platform.warehouse.postgres.versions import revisions

_LITTLE_BYTES, _FEW_BYTES = 200 << 20, 1 << 30


def examine_machine(settings: Settings, today: date) -> Iterator[Finding]:
    """Yield the findings that need neither database nor network."""
    yield ok("Seller Platform", f"{__version__}; its tables have version {revisions()[-1]}")
    by_origin = groupby(sorted(origins(settings).items(), key=itemgetter(1)), key=itemgetter(1))
    found = [f"{', '.join(name for name, _ in names)} from {origin}" for origin, names in by_origin]
    yield ok("settings", "; ".join(found) or "all are as by default")
    if settings.history_start > today:
        message = f"{settings.history_start} is in the future: there is nothing to read"
        yield fail("SELLER_PLATFORM_HISTORY_START", message, "set it to the first day to load")
    yield from examine_home(settings.home)
    yield from examine_root_data(settings.root_data_folder)
    yield examine_key(settings)
    for name, folder in (("disk of the home folder", settings.home), ("disk of TMPDIR", Path(tempfile.gettempdir()))):
        yield examine_disk(name, shutil.disk_usage(_nearest(folder)).free, folder)


def examine_home(home: Path) -> Iterator[Finding]:
    """Yield whether the home folder is writable, and private to its owner."""
    subject = "home folder"
    if not home.is_dir():
        nearest = _nearest(home)
        if not nearest.is_dir():
            yield fail(subject, f"{nearest} is not a folder", "set SELLER_PLATFORM_HOME to another folder")
        elif not _is_writable(nearest):
            yield fail(subject, f"{home} cannot be created in {nearest}", "set SELLER_PLATFORM_HOME to another folder")
        else:
            yield ok(subject, f"{home} is created on first use")
        return
    typed = quote(str(home))
    if not _is_writable(home):
        step = f"`chown $(id -u) {typed}`, or set SELLER_PLATFORM_HOME to another folder"
        yield fail(subject, f"{home} cannot be written", step)
        return
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield fail(subject, f"others may write into {home}", f"`chmod go-w {typed}`")
    elif mode & (stat.S_IRGRP | stat.S_IROTH):
        yield warn(subject, f"others may list {home}", f"`chmod go-r {typed}`")
    else:
        yield ok(subject, str(home))
    spools = (home / "grants").glob("*") if (home / "grants").is_dir() else ()
    for path in (*spools, *home.glob("secret.key")):
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            step = f"`chmod 600 {quote(str(path))}`, then `seller-platform keys rotate`"
            yield fail(subject, f"others may read {path}", step)


def examine_root_data(root_data: Path) -> Iterator[Finding]:
    """Yield what servers without a home folder have left in root's folder."""
    if folders := [quote(str(folder)) for folder, _ in abandoned_folders(root_data)] if is_root() else []:
        text = f"{count_of(len(folders), 'home', 'is')} gone, and left data in {root_data}"
        yield warn(
            "data of the embedded server",
            text,
            f"`seller-platform database remove {' '.join(folders)}`, unless they were moved",
        )


def examine_key(settings: Settings) -> Finding:
    """Return whether there is a key, and only one."""
    subject, path = "secret key", key_file(settings.home)
    if settings.secret_key is None and not path.exists():
        return ok(subject, f"{path} is created on first use")
    where = "SELLER_PLATFORM_SECRET_KEY" if settings.secret_key is not None else str(path)
    text = settings.secret_key.get_secret_value() if settings.secret_key is not None else path.read_text()
    try:
        count = len(split_keys(text))
    except InvalidSettingError:
        step = f"set {where} to the key grants were stored with"
        return fail(subject, f"the content of {where} is not a Fernet key", step)
    if count == 1:
        return ok(subject, where)
    message = f"{where} holds {count_of(count, 'key')}: a change of keys is not finished"
    return warn(subject, message, "`seller-platform keys rotate`")


def examine_disk(subject: str, free_bytes: int, folder: Path) -> Finding:
    """Return whether the disk has enough room."""
    message = f"{free_bytes / (1 << 30):.1f} GiB free at {folder}"
    if free_bytes < _LITTLE_BYTES:
        return fail(subject, message, "make room there")
    return warn(subject, message, "make room there") if free_bytes < _FEW_BYTES else ok(subject, message)


def _nearest(path: Path) -> Path:
    """Return the path, or the nearest of its parents that exists."""
    return next(each for each in (path, *path.parents) if each.exists())


def _is_writable(folder: Path) -> bool:
    """Whether a file can be created there. The rights alone do not say so for the superuser or on read-only disks."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
