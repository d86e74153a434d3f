"""Redis, the broker of Celery, from the packages of the system, on the loopback interface."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seller_platform_tests.support.processes import end_group, free_port
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.waiting import wait_for


def require_redis() -> None:
    """Skip the test where Redis is not installed."""
    if shutil.which("redis-server") is None:
        skip_except_in_ci("Redis is not installed: it is the package redis-server of Debian")


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Run Redis in a folder, and yield its URL."""
    require_redis()
    port = str(free_port())
    words = ["redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", str(folder), "--save", ""]
    log = folder / "redis.log"
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        ready = "Ready to accept connections"
        wait_for(log.read_text, lambda text: ready in text or process.poll() is not None, explain=str)
        assert process.poll() is None, log.read_text()[-3000:]
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        end_group(process)
