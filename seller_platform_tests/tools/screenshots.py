"""Renews the pictures of the README and the pages: `python -m seller_platform_tests.tools.screenshots`.

It runs the tests of the Dagster UI in a browser, which take some minutes and need Debian's `chromium-headless-shell`.
The home of the tests is /tmp/shop, which messages in the pictures show.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from seller_platform_tests.journeys import test_ui
from seller_platform_tests.tools.documentation import PAGES


def main() -> None:
    """Run the tests, copy the pictures, and print their paths."""
    home = Path(tempfile.gettempdir()) / "shop"
    home.mkdir()
    try:
        folder = home / "screenshots"
        variables = {**os.environ, test_ui.SCREENSHOTS: str(folder), "CI": "true"}
        command = [sys.executable, "-m", "pytest", "-n0", "-q", "-m", "browser", test_ui.__file__]
        subprocess.run(command, env=variables, check=True)
        for name in test_ui.PICTURES:
            print(shutil.copy(folder / f"{name}.png", PAGES / "images"))
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
