"""Sends the same refresh token in eight requests at once, and counts the answers.

`python -m seller_platform_tests.benchmarks.refreshing [--rounds 300]` prints one table.

In each round, eight threads with their own HTTP connections send the same refresh token at the same time. One request
must succeed and all others must be refused. Because the token was used twice, its family must be revoked afterwards.
"""

import argparse
import secrets
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
from rich.console import Console
from rich.table import Table

from seller_platform.service.access import hash_of
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.served import ANN, Served, execute, served

AT_ONCE = 8


def issue_refresh_token(service: Served) -> str:
    """Return the refresh token of a new family, stored without the pages."""
    token = secrets.token_urlsafe(32)
    execute(
        service.database,
        "WITH consent AS (INSERT INTO service.authorizations (family, client_id, user_id) "
        "SELECT gen_random_uuid(), %s, id FROM service.users WHERE email = %s RETURNING family) "
        "INSERT INTO service.refresh_tokens SELECT %s, family, now() + interval '1 day' FROM consent",
        service.client_id,
        ANN,
        hash_of(token),
    )
    return token


def race(service: Served, rounds: int) -> Counter[tuple[int, ...]]:
    """Return the number of rounds for each sorted tuple of statuses.

    Raises:
        AssertionError: The tokens of the successful request were still valid after the round.
    """
    ends: Counter[tuple[int, ...]] = Counter()
    browsers = [httpx.Client(base_url=service.base_url, timeout=30) for _ in range(AT_ONCE)]
    start = threading.Barrier(AT_ONCE)
    try:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for _ in range(rounds):
                token = issue_refresh_token(service)

                def spend(browser: httpx.Client, token: str = token) -> httpx.Response:
                    start.wait()
                    return service.refresh(browser, token)

                answers = list(threads.map(spend, browsers))
                ends[tuple(sorted(answer.status_code for answer in answers))] += 1
                for winner in (answer.json() for answer in answers if answer.status_code == 200):
                    headers = {"Authorization": f"Bearer {winner['access_token']}"}
                    assert browsers[0].get("/user/me", headers=headers).status_code == 401
                    assert service.refresh(browsers[0], winner["refresh_token"]).status_code == 400
    finally:
        for browser in browsers:
            browser.close()
    return ends


def main() -> None:
    """Run the rounds and print how they ended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        url = server.database("refreshing")
        with Database(url) as database:
            database.migrate()
            with served(database, url) as service:
                began = time.perf_counter()
                ends = race(service, rounds)
                seconds = time.perf_counter() - began
        server.close()
    table = Table("rounds", "winners", "statuses", title=f"{AT_ONCE} simultaneous refreshes, {seconds:.1f} s")
    for statuses, count in ends.items():
        table.add_row(f"{count:,}", str(statuses.count(200)), ", ".join(map(str, statuses)))
    Console().print(table)


if __name__ == "__main__":
    main()
