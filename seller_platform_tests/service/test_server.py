"""Tests the process of the service: its address, its log without secrets, and its end."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from seller_platform.errors import CannotListenError
from seller_platform.service.server import run_service
from seller_platform_tests.support.processes import announced_address
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

_PROGRAM = """
import sys
from seller_platform.service.server import run_service
if __name__ == "__main__":
    run_service(sys.stdin.readline().strip(), port=0, workers=2)
    print("ended in order")
"""


@contextmanager
def _running(url: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    program, log = folder / "program.py", folder / "log"
    program.write_text(_PROGRAM)
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=file, stderr=file, text=True
        )
    try:
        assert process.stdin
        process.stdin.write(f"{url}\n")
        process.stdin.close()
        yield process, announced_address(process, log), log
    finally:
        process.kill()
        process.wait()


def test_it_serves_and_ends_in_order_on_a_signal(database_url: str, tmp_path: Path) -> None:
    with _running(database_url, tmp_path) as (process, base_url, log):
        answer = httpx.get(f"{base_url}/service-status?code=secret-code", timeout=PATIENCE_SECONDS)
        arguments = Path(f"/proc/{process.pid}/cmdline").read_text()
        process.send_signal(signal.SIGINT)
        status = process.wait(PATIENCE_SECONDS)

    assert (answer.status_code, status) == (200, 0), log.read_text()
    assert "server" not in answer.headers
    assert "ended in order" in log.read_text()
    assert "GET /service-status 200" in log.read_text()
    assert "secret-code" not in log.read_text()
    assert "Traceback" not in log.read_text()
    assert database_url not in arguments


def test_a_port_that_is_taken_is_named(reading: object) -> None:
    taken = int(str(getattr(reading, "base_url", "")).rpartition(":")[2])

    with pytest.raises(CannotListenError, match=f"port {taken}"):
        run_service("postgresql://nowhere/x", port=taken)
