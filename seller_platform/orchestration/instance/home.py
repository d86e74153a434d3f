"""The Dagster instance of our commands: that of DAGSTER_HOME, or one in the home folder."""

import os
from pathlib import Path

import dagster as dg

from seller_platform.files import make_folders, write_atomically

_FLOOR = Path(__file__).parents[1]


def dagster_home(home: Path) -> Path:
    """Return the folder of the Dagster instance.

    It is DAGSTER_HOME if that is set, else a folder in the home folder, into which our `dagster.yaml` is written.
    """
    configured = os.environ.get("DAGSTER_HOME")
    if configured:
        return Path(configured)
    folder = home / "dagster"
    make_folders(folder)
    shipped = _FLOOR / "dagster.yaml"  # of a wheel; else it lies on the project's top level
    content = (shipped if shipped.exists() else _FLOOR.parents[1] / "dagster.yaml").read_bytes()
    target = folder / "dagster.yaml"
    if not target.exists() or target.read_bytes() != content:
        write_atomically(target, content, 0o666)
    return folder


def open_instance(home: Path) -> dg.DagsterInstance:
    """Return the Dagster instance; use it as a context manager."""
    return dg.DagsterInstance.from_config(str(dagster_home(home)))
