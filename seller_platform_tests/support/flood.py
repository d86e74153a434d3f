"""A program that floods a URL from many networks until it is ended: `python -m ... HOST PORT NETWORKS SLOW`.

Each network asks without a pause. SLOW connections send no whole head, no whole body, or read
no answer. A line of counts by status follows each second.
"""

import asyncio
import json
import os
import resource
import sys
from collections import Counter

_CONNECTIONS = 40  # more than one network may have under way
_REQUESTS = (
    ("GET", "/docs"),
    ("GET", "/login"),
    ("GET", "/no/such/path"),
    ("GET", "/user/me"),
    ("POST", "/oauth/token"),
)


async def _ask(host: str, port: int, network: str, first: int, counts: Counter[str]) -> None:
    while True:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            for number in range(first, first + 100):
                method, path = _REQUESTS[number % len(_REQUESTS)]
                writer.write(
                    f"{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\nX-Forwarded-For: {network}\r\n"
                    f"Authorization: Bearer wrong-{number}\r\nContent-Length: 0\r\n\r\n".encode()
                )
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = head.partition("content-length: ")[2].partition("\r\n")[0]
                if length:
                    await reader.readexactly(int(length))
                else:
                    await reader.readuntil(b"0\r\n\r\n")
                counts[f"{path} {head.split()[1]}"] += 1
        except (OSError, EOFError, asyncio.LimitOverrunError):
            counts["ended"] += 1
        finally:
            writer.close()


async def _dawdle(host: str, port: int, number: int) -> None:
    network = f"203.0.{number % 200}.{number % 250}"
    start = f"GET /docs HTTP/1.1\r\nHost: {host}:{port}\r\nX-Forwarded-For: {network}\r\n".encode()
    body = start.replace(b"GET /docs", b"POST /oauth/token") + b"Content-Length: 100\r\n\r\na"
    while True:
        _, writer = await asyncio.open_connection(host, port, limit=1)
        writer.write((start, body, start + b"\r\n")[number % 3])
        await asyncio.sleep(5)
        writer.transport.abort()


async def _flood(host: str, port: int, networks: int, slow: int) -> None:
    counts: Counter[str] = Counter()
    tasks = [asyncio.create_task(_dawdle(host, port, number)) for number in range(slow)]
    tasks += [
        asyncio.create_task(_ask(host, port, f"198.51.100.{network}", first, counts))
        for network in range(networks)
        for first in range(_CONNECTIONS)
    ]
    while True:
        await asyncio.sleep(1)
        assert not any(task.done() for task in tasks)
        print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    os.nice(5)
    asyncio.run(_flood(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
