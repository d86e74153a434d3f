"""The folder of a project: its home folder and its project file, which is kept in version control.

It is the nearest one of the working directory and the folders above that has either; else the working directory. A
folder above counts if what it has belongs to this user, and not everybody may write in it.
"""

import os
import stat
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

from seller_platform.errors import InvalidSettingError, did_you_mean

HOME_FOLDER = ".seller_platform"
"""The name of a home folder that no setting names."""

PROJECT_FILE = "seller_platform.toml"
"""The name of the project file."""

NAMES_FILE = "SELLER_PLATFORM_PROJECT_FILE"
"""The variable that names another project file."""


def nearest_home() -> Path:
    """Return the home folder that applies where SELLER_PLATFORM_HOME is not set.

    A command that writes creates it, and says so; a command that reads never creates one.

    Raises:
        InvalidSettingError: The working directory no longer exists.
    """
    return _project_folder() / HOME_FOLDER


def project_file() -> Path | None:
    """Return the project file that applies, if there is one."""
    if named := os.environ.get(NAMES_FILE):
        return Path(named).absolute()
    file = _project_folder() / PROJECT_FILE
    return file if file.is_file() else None


def read_project(file: Path, names: Collection[str], paths: Collection[str]) -> Mapping[str, object]:
    """Return the settings of a project file, by name.

    Args:
        names: The settings that may stand in it.
        paths: Those that are paths, which are relative to the folder of the file.

    Raises:
        InvalidSettingError: It cannot be read, is no TOML, or names another setting.
    """
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidSettingError(str(file), f"cannot be read: {problem}") from None
    for unknown in values.keys() - set(names):
        problem = f"{unknown!r} is no setting of a project{did_you_mean(unknown, names)}; choose of {', '.join(names)}"
        raise InvalidSettingError(str(file), f"{problem}. Secrets and servers are set in the environment")
    for name in values.keys() & set(paths):
        path = values[name]
        if isinstance(path, str) and path and "://" not in path and not path.startswith("~"):
            values[name] = str(file.parent / path)
    return values


def _project_folder() -> Path:
    try:
        working = Path.cwd()
    except FileNotFoundError:
        raise InvalidSettingError(
            "SELLER_PLATFORM_HOME",
            "is not set, and the working directory no longer exists. Set it, or change the folder",
        ) from None
    for folder in (working, *working.parents):
        found = [each for each in (folder / HOME_FOLDER, folder / PROJECT_FILE) if each.exists()]
        if found and (folder == working or all(map(_is_own, found))):
            return folder
    return working


def _is_own(path: Path) -> bool:
    """Whether a file or folder belongs to this user, in a folder where not everybody may create one, as in /tmp.

    The group may: with umask 002, folders are made so. A link that another user has made is not used.
    """
    try:
        is_shared = path.parent.stat().st_mode & stat.S_IWOTH
        return {path.stat().st_uid, path.lstat().st_uid} == {os.geteuid()} and not is_shared
    except OSError:
        return False
