"""Programs of this version go on while their databases are upgraded, and afterwards."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

import seller_platform
from seller_platform.cli.installation import open_installation
from seller_platform.cli.output import Output
from seller_platform.sandbox.commands.demo import connect_local_stack
from seller_platform.sandbox.commands.local_stack import open_local_stack
from seller_platform.sandbox.commands.serving import LOG
from seller_platform.warehouse.migrations.pending import version_of
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.next_version import NEXT, upgrade_to_next
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.processes import document, environment, run
from seller_platform_tests.support.stored_rows import execute, stored
from seller_platform_tests.support.waiting import wait_for

pytestmark = pytest.mark.journey

# A few products of the newest days get another name: a load then replaces rows.
_RENAME = """
UPDATE seller.orders SET product_name = left(product_name, 20) || %s
WHERE ctid = ANY (ARRAY(SELECT ctid FROM seller.orders ORDER BY local_day DESC, platform_order_id LIMIT 30))
"""
_MIXED = """
SELECT slice.account, slice.month, slice.rows, count(stored.account)
FROM platform.slices AS slice
LEFT JOIN seller.orders AS stored
    ON stored.account = slice.account AND stored.local_day >= slice.month
       AND stored.local_day < slice.month + interval '1 month'
WHERE slice.dataset = 'orders'
GROUP BY slice.account, slice.month, slice.rows HAVING slice.rows <> count(stored.account)
"""
_AS_OF = "SELECT count(*), sum(order_total) FROM history.orders_as_of(%s)"
# A concurrent build of an index waits for older transactions, which nothing else waits for.
_WAITING = """
SELECT extract(epoch FROM clock_timestamp() - waitstart)::float, locktype, relation::regclass::text, mode
FROM pg_locks JOIN pg_database ON pg_database.oid = database
WHERE datname = current_database() AND NOT granted AND locktype <> 'virtualxid' AND waitstart IS NOT NULL
"""
_PAUSE_SECONDS = 0.05
_MOST_SECONDS = 1.0  # a tenth of a second is allowed, on a machine that does nothing else


@contextmanager
def working(*programs: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """Let programs work again and again in threads, and yield what waits until each has worked, or one has failed."""
    rounds, ended = Counter[Callable[[], object]](), threading.Event()

    def repeat(work: Callable[[], object]) -> None:
        while not ended.wait(_PAUSE_SECONDS):
            work()
            rounds[work] += 1

    with ThreadPoolExecutor(len(programs)) as threads:
        running = [threads.submit(repeat, work) for work in programs]

        def await_round() -> None:
            after = {work: rounds[work] + 2 for work in programs}  # so that one round is whole
            wait_for(lambda: any(map(Future.done, running)) or all(rounds[work] >= after[work] for work in programs))

        try:
            yield await_round
        finally:
            ended.set()
        for each in running:
            each.result()


@pytest.mark.timeout(600)
def test_programs_go_on_during_and_after_an_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader starts again and again, the service and the readers keep their connections."""
    output = Output(as_json=True)
    with (
        temporary_folder() as home,
        open_local_stack(home, output, accounts=1, months=2) as stack,
        closing(stack.server),
    ):
        for name, value in stack.environment.items():
            monkeypatch.setenv(name, value)
        with open_installation() as installation:
            connect_local_stack(installation, stack, output)
        variables = environment(stack.home, **stack.environment)
        url = stack.environment["SELLER_PLATFORM_DATABASE_URL"]
        document(run(["sync", "--full", "--json"], variables))
        with Database(url) as warehouse, Database(stack.sandbox_url) as sandbox:
            [(moment,)] = stored(warehouse, "SELECT max(finished_at) FROM platform.loads")
            former, longest = stored(warehouse, _AS_OF, moment), (0.0,)

            def load() -> None:
                execute(sandbox, _RENAME, f" {time.monotonic()}")
                document(run(["sync", "--dataset", "orders", "--dataset", "transactions", "--json"], variables))

            def read() -> None:
                assert stored(warehouse, _MIXED) == []
                assert stored(warehouse, _AS_OF, moment) == former
                stored(warehouse, "SELECT count(*) FROM platform.problems")
                assert "is_gift" not in seller_platform.read("orders", database_url=url).columns

            def watch() -> None:
                nonlocal longest
                longest = max([longest, *stored(warehouse, _WAITING), *stored(sandbox, _WAITING)])

            with working(load, read, watch) as await_round:
                await_round()
                for database in (sandbox, warehouse):
                    upgrade_to_next(database)
                await_round()
            versions = [version_of(sandbox), version_of(warehouse)]
            assert [(str(each), each is not None and each.is_usable) for each in versions] == [(NEXT, True)] * 2
            assert longest[0] < _MOST_SECONDS, longest
        assert "Traceback" not in (stack.home / LOG).read_text()
