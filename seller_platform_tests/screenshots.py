"""Renews the pictures of the README and the pages: `python -m seller_platform_tests.screenshots`.

It runs the test of a day in the Dagster UI, which takes some minutes and needs Debian's `chromium-headless-shell`. The
home of the test is /tmp/shop, which messages in the pictures show.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from seller_platform_tests.documentation import PAGES
from seller_platform_tests.journeys import test_ui


def main() -> None:
    """Run the test, copy the pictures, and print their paths."""
    home = Path(tempfile.gettempdir()) / "shop"
    home.mkdir()
    try:
        folder = home / "screenshots"
        variables = {**os.environ, test_ui.SCREENSHOTS: str(folder), "CI": "true"}
        test = f"{test_ui.__file__}::{test_ui.test_the_work_of_a_day_is_done_in_the_dagster_ui.__name__}"
        subprocess.run([sys.executable, "-m", "pytest", "-n0", "-q", test], env=variables, check=True)
        for name in test_ui.PICTURES:
            print(shutil.copy(folder / f"{name}.png", PAGES / "images"))
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
