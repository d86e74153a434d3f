"""How many lines of Python each floor of the product, and the tests, may have.

A change that needs more raises its number in the same commit, and says what it took the room for.
"""

import re
import subprocess

from seller_platform_tests.structure.source import PRODUCT, ROOT, TESTS

BUDGETS = {
    "root": 2_732,
    "cli": 4_776,
    "orchestration": 4_345,
    "service": 11_867,
    "sandbox": 2_852,
    "alerts": 610,
    "agents": 2_205,
    "ingest": 2_388,
    "client": 3_597,
    "warehouse": 10_597,
    "contract": 1_223,
    "costs": 1_440,
    "ledgers": 288,
    "reports": 1_417,
    "lake": 1_008,
    "sampling": 672,
    "books": 1_887,
    "marts": 2_895,
    "tests": 51_513,
}
"""The most lines of each, migrations included. The root are the modules beside the floors."""

MOST_CALLED_ONCE_PERCENT = 12.0
"""The largest part of all private functions that may be called from one place only."""

MOST_FUNCTIONS_OF_A_PAGE = {"functions": 78, "modules": 16, "deep": 12}
"""How many own functions reading one page of orders may enter, in how many modules, and how deep they may nest."""


def lines_by_floor() -> dict[str, int]:
    """Return how many lines each floor has, by the names of the budgets."""
    lines = dict.fromkeys(BUDGETS, 0)
    for package, root in ((PRODUCT, "root"), (TESTS, "tests")):
        for path in package.rglob("*.py"):
            parts = path.relative_to(package).parts
            floor = root if package is TESTS or len(parts) == 1 else parts[0]
            lines[floor] += len(path.read_text().splitlines())
    return lines


def raised_without_reason() -> list[str]:
    """Return the messages of commits that raise a number here and do not name what grows."""
    git = ["git", "-c", "safe.directory=*", "-C", str(ROOT)]
    log = [*git, "log", "--since=2026-11-28T14:20Z", "--unified=0", "--format=%x00%h %B%x01", "-p"]
    history = subprocess.run([*log, "--", __file__], check=True, capture_output=True, text=True).stdout
    commits = (commit.partition("\1") for commit in history.split("\0")[1:])
    return [message for message, _, diff in commits if not raised(diff) <= set(re.findall(r"\w+", message))]


def raised(diff: str) -> set[str]:
    """Return the names of the numbers that a difference without context raises."""
    before, after = (
        {
            name: float(number)
            for line in re.findall(rf"^\{sign}[^+-].*", diff, re.MULTILINE)
            for name, number in re.findall(r'(\w+)"?(?:: | = )([\d_.]+)', line)
        }
        for sign in "-+"
    )
    return {name for name, number in after.items() if number > before.get(name, number)}
