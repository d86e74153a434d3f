"""Types the README's first lines in a new clone and a new virtual environment, and executes the notebook.

`python -m seller_platform_tests.documents.clean_environment` takes some minutes, most of them to install packages.
"""

import os
import subprocess
import sys
from pathlib import Path

from seller_platform_tests.documentation import README
from seller_platform_tests.documents.markdown import Document, typed
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.processes import environment

_EXAMPLE = "example.py"
_NOTEBOOK = "jupyter execute first_look.ipynb"


def main() -> int:
    """Run every line, print its exit code, and return 1 at the first that fails."""
    with temporary_folder() as top:
        clone = top / "seller platform"
        subprocess.run(["git", "clone", "--quiet", str(README.parent), str(clone)], check=True)
        subprocess.run([sys.executable, "-m", "venv", str(top / "a venv")], check=True)
        own = {"PATH": os.pathsep.join((str(top / "a venv" / "bin"), os.environ["PATH"])), "MPLBACKEND": "agg"}
        variables = {name: value for name, value in environment(top, **own).items() if name != "SELLER_PLATFORM_HOME"}
        for line in _lines(clone):
            code = subprocess.run(["bash", "-c", line], cwd=clone, env=variables, check=False).returncode
            print(f"{code}  {line}", flush=True)
            if code:
                return 1
    return 0


def _lines(clone: Path) -> list[str]:
    """Return the lines from the first command to the chart, and the one that the notebook's copy needs."""
    readme = Document(README)
    install = readme.lines[0]
    first_look = typed(readme.blocks("console")[1])
    (clone / _EXAMPLE).write_text(readme.blocks("python")[0])
    return [install, *first_look, f"python {_EXAMPLE} && ls sales.png", _NOTEBOOK]


if __name__ == "__main__":
    sys.exit(main())
