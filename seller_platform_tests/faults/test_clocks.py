"""Loads of a process whose clock is wrong.

Pauses are measured by a monotonic clock, and dates of answers compared with the upstream's (`client/http`). The wall
clock is read for the day, and for the order and the age of values that other processes stored.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from seller_platform_tests import support
from seller_platform_tests.support.broken_connection import BERLIN, JANUARY, Broken
from seller_platform_tests.support.one_load import Ended, load_apart
from seller_platform_tests.support.skipping import skip_except_in_ci

pytestmark = pytest.mark.slow


def load(broken: Broken, environment: dict[str, str]) -> Ended:
    return load_apart(broken.site, BERLIN, "transactions", JANUARY, environment=environment)


@pytest.mark.parametrize("days", [1, *(pytest.param(days, marks=pytest.mark.nightly) for days in (-2_700, -1, 6_800))])
def test_a_load_with_a_wrong_clock_is_whole_and_spends_each_token_once(
    broken: Broken, tmp_path: Path, days: int
) -> None:
    if not shutil.which("cc"):
        skip_except_in_ci("a moved clock needs a C compiler; install the Debian package gcc")
    source, library, ahead = (
        Path(support.__file__).with_name("moved_clock.c"),
        tmp_path / "clock.so",
        tmp_path / "ahead",
    )
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    ahead.write_bytes((days * 86_400 * 10**9).to_bytes(8, "little", signed=True))
    broken.forget_tokens()

    wrong = load(broken, {"LD_PRELOAD": str(library), "SELLER_PLATFORM_TESTS_CLOCK": str(ahead), "TZ": "UTC"})
    broken.forget_tokens()
    right = load(broken, {})

    assert (wrong.code, wrong.verdict, right.code, right.verdict) == (0, "match", 0, "match"), (
        wrong.message + right.message
    )
    assert wrong.digest == right.digest
    assert broken.upstream.replayed == 0
    assert broken.upstream.refreshes == broken.server.seen["POST", "/api/oauth/token"]
