"""Measures the service while 1,000 slow connections are open and 100 MiB of headers arrive.

`python -m seller_platform_tests.benchmarks.stalling [--connections 1000] [--mebibytes 100] [--seconds 40]` prints a
table.

One worker serves an empty database with its default bounds. The attack comes from a process of its own: half of the
slow connections send a head of 90 headers and 30 KiB and then one byte a second, the other half send the body of a
login in the same way. Each is opened again as soon as the service ends it. Meanwhile headers that never end arrive at
an even rate. Another client requests `/service-status`, which reads PostgreSQL, before and during the attack. The
table shows its times and the memory of the service, whose highest value is compared with that at rest.
"""

import argparse
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from rich.console import Console
from rich.table import Table

from seller_platform.contract.wire import SERVICE_STATUS
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.benchmarks.serving import memory_of, service, timed

_HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 330) for n in range(88))
_BODY = (
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 60000\r\n\r\nemail="
)
_HEADER = b"X-Large: " + b"x" * 16_000 + b"\r\n"
_REST_SECONDS = 15


def main() -> None:
    """Run the service and the attack, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--mebibytes", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--attack", metavar="URL", help="only attack a service, as the process of a measurement does")
    options = parser.parse_args()
    if options.attack:
        attack(options.attack, options.connections, options.mebibytes, options.seconds)
        return
    with tempfile.TemporaryDirectory(prefix="seller-stalling-") as folder:
        server = EmbeddedServer(Path(folder) / "postgres")
        try:
            url = server.database("stalling")
            with Database(url) as database:
                database.migrate()
            with service(url, Path(folder)) as (base_url, pid):
                _measure(base_url, pid, options)
        finally:
            server.close()


def _measure(base_url: str, pid: int, options: argparse.Namespace) -> None:
    for _ in range(200):
        httpx.get(base_url + SERVICE_STATUS)
    httpx.get(f"{base_url}/docs")
    calm, at_rest = _observed(base_url, pid, _REST_SECONDS)
    command = [sys.executable, "-m", __spec__.name, "--attack", base_url]
    sizes = [f"--{name}={getattr(options, name)}" for name in ("connections", "mebibytes", "seconds")]
    with subprocess.Popen([*command, *sizes], env=os.environ, stdout=subprocess.PIPE, text=True) as attacker:
        stormy, highest = _observed(base_url, pid, options.seconds)
        told = attacker.communicate()[0].strip()
    table = Table("", "at rest", "attacked", "ratio or difference")
    for name, quantile in (("median ms", 0.5), ("p99 ms", 0.99)):
        before, during = (_quantile(times, quantile) for times in (calm, stormy))
        table.add_row(name, f"{before:.1f}", f"{during:.1f}", f"{during / before:.2f} x")
    table.add_row("requests", str(len(calm)), str(len(stormy)), "")
    table.add_row("highest memory MiB", str(at_rest), str(highest), f"+{highest - at_rest}")
    Console().print(table)
    Console().print(told)


def _observed(base_url: str, pid: int, seconds: float) -> tuple[list[float], int]:
    """Request the status again and again; return the milliseconds of each request, and the highest memory."""
    times, highest, end = [], 0, time.monotonic() + seconds
    with httpx.Client(base_url=base_url, timeout=60) as client:
        while time.monotonic() < end:
            times.append(timed(lambda: client.get(SERVICE_STATUS).raise_for_status()))
            highest = max(highest, memory_of(pid))
            time.sleep(0.005)
    return times, highest


def _quantile(times: list[float], quantile: float) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[round(quantile * 100) - 1]


def attack(base_url: str, connections: int, mebibytes: int, seconds: float) -> None:
    """Hold slow connections and send headers until the time is up; print how many there were."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, connections + 200)), hard))
    parts, end = urlsplit(base_url), time.monotonic() + seconds
    address = (parts.hostname or "", parts.port or 80)
    flood = threading.Thread(target=_flood, args=(address, mebibytes << 20, seconds * 0.9))
    flood.start()
    slow: list[socket.socket] = []
    opened = 0
    while time.monotonic() < end:
        for connection in list(slow):
            try:
                connection.send(b"x")
            except OSError:
                connection.close()
                slow.remove(connection)
        while len(slow) < connections and time.monotonic() < end:
            with suppress(OSError):
                slow.append(_opened(address, _HEAD if opened % 2 else _BODY))
            opened += 1
        time.sleep(1)
    flood.join()
    print(f"{opened} slow connections were opened, {connections} at once; {mebibytes} MiB of headers were sent")


def _opened(address: tuple[str, int], first: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=10)
    connection.sendall(first)
    connection.setblocking(False)
    return connection


def _flood(address: tuple[str, int], size: int, seconds: float) -> None:
    """Send headers without end at an even rate, over a new connection whenever one is ended."""
    began, sent = time.monotonic(), 0
    while sent < size:
        with suppress(OSError), socket.create_connection(address, timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            while sent < size:
                if sent > size * (time.monotonic() - began) / seconds:
                    time.sleep(0.01)
                    continue
                sent += len(_HEADER)
                connection.sendall(_HEADER)


if __name__ == "__main__":
    main()
