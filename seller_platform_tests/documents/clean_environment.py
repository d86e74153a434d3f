"""Types the README's first lines in a new clone and a new virtual environment, and executes the notebook.

`python -m seller_platform_tests.documents.clean_environment` takes some minutes, most of them to install packages.
With `--wheel FILE` it installs this wheel where the README installs the clone, and types the lines in an empty folder;
the last ones open Dagster's UI over the rows of the demo.
"""

import argparse
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from shlex import quote

import httpx

from seller_platform_tests.documents.markdown import Document, typed
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.processes import end_group, environment, free_port
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for
from seller_platform_tests.tools.documentation import README

_EXAMPLE = "example.py"
_NOTEBOOK = "jupyter execute first_look.ipynb"
_LOCATIONS = """
{ workspaceOrError { ... on Workspace { locationEntries { name loadStatus locationOrLoadError { __typename } } } } }
"""


def main() -> int:
    """Run every line, print its exit code, and return 1 at the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="Install this wheel instead of a clone.")
    wheel: Path | None = parser.parse_args().wheel
    with temporary_folder() as top:
        folder = top / "seller platform"
        if wheel is None:
            subprocess.run(["git", "clone", "--quiet", str(README.parent), str(folder)], check=True)
        else:
            folder.mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(top / "a venv")], check=True)
        own = {"PATH": os.pathsep.join((str(top / "a venv" / "bin"), os.environ["PATH"])), "MPLBACKEND": "agg"}
        variables = {name: value for name, value in environment(top, **own).items() if name != "SELLER_PLATFORM_HOME"}
        for line in _lines(folder, "-e ." if wheel is None else quote(str(wheel.resolve()))):
            code = subprocess.run(["bash", "-c", line], cwd=folder, env=variables, check=False).returncode
            print(f"{code}  {line}", flush=True)
            if code:
                return 1
        if wheel is not None:
            (block,) = (each for each in Document(README).blocks("console") if "dagster dev" in each)
            copies, opens = typed(block)
            subprocess.run(["bash", "-c", copies], cwd=folder, env=variables, check=True)
            port, variables["SELLER_PLATFORM_DEMO"] = free_port(), "1"
            location = _location(f"{opens} --port {port}", variables, folder, port)
            print(f"{location}  {opens}")
            if location["name"] != "seller_platform" or "Error" in str(location):
                return 1
    return 0


def _location(line: str, variables: dict[str, str], folder: Path, port: int) -> dict[str, object]:
    """Open Dagster's UI until its only code location is loaded, and return what the UI says of that."""
    process = subprocess.Popen(["bash", "-c", line], cwd=folder, env=variables, start_new_session=True)

    def entries() -> list[dict[str, object]]:
        with suppress(httpx.TransportError):
            answer = httpx.post(
                f"http://127.0.0.1:{port}/graphql", json={"query": _LOCATIONS}, timeout=PATIENCE_SECONDS
            )
            if answer.is_success:
                return list(answer.json()["data"]["workspaceOrError"]["locationEntries"])
        return []

    try:
        (entry,) = wait_for(entries, lambda all_: bool(all_) and all_[0]["loadStatus"] == "LOADED", pause_seconds=1)
    finally:
        end_group(process)
    return entry


def _lines(folder: Path, package: str) -> list[str]:
    """Return the lines from the first command to the chart, and the one that the notebook's copy needs.

    Args:
        package: What pip installs in place of `-e .`.
    """
    readme = Document(README)
    first_look = typed(readme.blocks("console")[1])
    (folder / _EXAMPLE).write_text(readme.blocks("python")[0])
    lines = [readme.lines[0], *first_look, f"python {_EXAMPLE} && ls sales.png", _NOTEBOOK]
    # An extra is quoted; quoted words that follow one another are one word of the shell.
    return [re.sub(r"-e ('?)\.(\[\w+\])?", lambda it: f"{package}{it[1]}{it[2] or ''}", line) for line in lines]


if __name__ == "__main__":
    sys.exit(main())
