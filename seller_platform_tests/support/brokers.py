"""Brokers of Celery from the packages of the system, on the loopback interface."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seller_platform_tests.support.processes import end_group, free_port
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.waiting import wait_for

_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


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
    with _running(words, folder / "redis.log", "Ready to accept connections"):
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def rabbitmq(folder: Path, _: str = "") -> Iterator[str]:
    """Run RabbitMQ in a new folder, and yield its URL."""
    if not _RABBITMQ.exists():
        skip_except_in_ci("RabbitMQ is not installed: it is the package rabbitmq-server of Debian")
    folder.mkdir()
    port, names_port, peers_port = (str(free_port()) for _ in range(3))
    variables = {
        **os.environ,
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": names_port,
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_DIST_PORT": peers_port,
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_NODENAME": f"test-{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": port,
    }
    with (
        # Otherwise Erlang starts it as a daemon, which outlives the test.
        _running(["epmd", "-debug", "-address", "127.0.0.1", "-port", names_port], folder / "epmd.log", "running"),
        _running([str(_RABBITMQ)], folder / "rabbitmq.log", "Server startup complete", variables),
    ):
        yield f"amqp://guest:guest@127.0.0.1:{port}//"


@contextmanager
def _running(words: list[str], log: Path, ready: str, variables: dict[str, str] | None = None) -> Iterator[None]:
    """Run a program until the block ends, from the moment on when its log says that it is ready."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            words, env=variables, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        wait_for(
            log.read_text, lambda text: ready in text or process.poll() is not None, explain=lambda text: text[-3000:]
        )
        assert process.poll() is None, log.read_text()[-3000:]
        yield
    finally:
        end_group(process)
