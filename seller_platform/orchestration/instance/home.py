"""The Dagster instance that our commands use: the one of DAGSTER_HOME, else one in the home folder."""

import os
from pathlib import Path

import dagster as dg

from seller_platform.files import write_atomically

_FLOOR = Path(__file__).parents[1]


def dagster_home(home: Path) -> Path:
    """Return the folder of the Dagster instance, with our `dagster.yaml` in it unless DAGSTER_HOME names another."""
    configured = os.environ.get("DAGSTER_HOME")
    if configured:
        return Path(configured)
    folder = home / "dagster"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = shipped_file("dagster.yaml").read_bytes()
    target = folder / "dagster.yaml"
    if not target.exists() or target.read_bytes() != wanted:
        write_atomically(target, wanted, 0o666)
    return folder


def open_instance(home: Path) -> dg.DagsterInstance:
    """Return the Dagster instance; use it as a context manager."""
    return dg.DagsterInstance.from_config(str(dagster_home(home)))


def shipped_file(name: str) -> Path:
    """Return a file of the project's top level, which a wheel carries in this floor's folder."""
    carried = _FLOOR / name
    return carried if carried.exists() else _FLOOR.parents[1] / name
