"""Mistakes planted in the product, one line each, and the seed at which the simulation finds each of them.

    python -m seller_platform_tests.simulation.mutations [--seeds 2000] [NAME...]

The product is copied to a temporary folder and changed there. The simulation runs in a process of its own that imports
the copy. A mistake that no seed finds shows that an actor, a fault or a rule of the judge is missing.
"""

import argparse
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import seller_platform
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.schema.functions import create_functions
from seller_platform_tests.simulation.plan import Plan
from seller_platform_tests.simulation.runs import Player, served

_Result = tuple[int | None, int, str]

SEEDS = 2_000
_PACKAGE = Path(seller_platform.__file__).parent
_PROJECT = _PACKAGE.parent
_LIBRARIES = [
    "alembic.command",
    "dagster",
    "greenlet",
    "httpx",
    "msgspec",
    "psycopg",
    "pydantic_settings",
    "sqlalchemy",
]


@dataclass(frozen=True)
class Mutation:
    """A mistake in one line of the product.

    Attributes:
        name: A sentence that says what the product does wrongly.
        file: The module, below the package.
        old: A part of one line that occurs once in the module.
        new: What replaces it.
    """

    name: str
    file: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        return _PACKAGE / self.file

    def applied(self, text: str) -> str:
        """Return the text of the module with the mistake.

        Raises:
            ValueError: The old text does not occur exactly once.
        """
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {self.old!r} {text.count(self.old)} times, not once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Finding:
    """The result of the simulation with a mistake.

    Attributes:
        seed: The first seed that failed; None where none did.
        events: The events of that seed until it failed.
        judgement: What was wrong.
    """

    mutation: Mutation
    seed: int | None
    events: int
    judgement: str
    seconds: float

    def __str__(self) -> str:
        seed = "not found" if self.seed is None else str(self.seed)
        return f"{self.mutation.name:<86} {seed:>9} {self.events:>6} {self.seconds:>7.1f}  {self.judgement}".rstrip()


_LISTS = (
    Mutation(
        "A list of several pages is believed after one reading.",
        "client/lists/pagination.py",
        'doubts.append("a list of several pages is read until two readings agree")',
        "pass",
    ),
    Mutation(
        "A second reading is believed whatever it says.",
        "client/lists/slice_reader.py",
        "or fingerprint == previous:",
        "or previous is not None:",
    ),
    Mutation(
        "Two readings agree when they announce the same total.",
        "client/lists/slice_reader.py",
        "fingerprint = (sink.digest, attempt.result.announced)",
        'fingerprint = (b"", attempt.result.announced)',
    ),
    Mutation(
        "A second reading keeps the rows of the first.",
        "client/lists/slice_reader.py",
        "            reader.restart()",
        "            pass",
    ),
    Mutation(
        "A page with fewer rows than its total is taken for the whole list.",
        "client/lists/pagination.py",
        "return first.total == len(first.rows)",
        "return first.total >= len(first.rows)",
    ),
    Mutation(
        "A short page is confirmed by a second answer with the same total.",
        "client/lists/pagination.py",
        "record.confirm(is_same=(again.total, again.rows) == (first.total, first.rows))",
        "record.confirm(is_same=again.total == first.total)",
    ),
    Mutation(
        "A list without a total ends after its first page.",
        "client/lists/pagination.py",
        "return pages == 1 or last >= self._rows_by_page[0]",
        "return False",
    ),
    Mutation(
        "The parts of a split list need not add up to the whole.",
        "client/lists/split_lists.py",
        "if self._distance(total, counts) == 0:",
        "if total >= 0:",
    ),
    Mutation(
        "The last day of a window is not asked for.",
        "contract/list_query.py",
        '"end_date": self.window.last_day.isoformat()',
        '"end_date": max(self.window.start, self.window.until(self.window.last_day).last_day).isoformat()',
    ),
    Mutation(
        "Rows of days that were not asked for are stored.",
        "client/decoding/pages.py",
        "if window is not None and self._day is not None:",
        "if window is None and self._day is not None:",
    ),
    Mutation(
        "The local day of a moment is the day that was sent.",
        "client/decoding/local_days.py",
        "datetime.fromisoformat(text).astimezone(self.zone).date()",
        "datetime.fromisoformat(text).date()",
    ),
    Mutation(
        "An error beside rows is believed.",
        "client/decoding/error_answers.py",
        "if not has_error and not (isinstance(status, str) and status.strip().casefold() == ERROR_WORD):",
        "if not has_error:",
    ),
)

_TOKENS = (
    Mutation(
        "The old refresh token is kept although a new one came.",
        "client/oauth/tokens.py",
        'body.get("refresh_token") or form.get("refresh_token")',
        'form.get("refresh_token") or body.get("refresh_token")',
    ),
    Mutation(
        "The row lock of a grant is not taken.",
        "warehouse/connections/grants.py",
        "transaction.execute(_grant_of(connection).with_for_update())",
        "transaction.execute(_grant_of(connection))",
    ),
    Mutation(
        "A received pair is committed without a copy on disk.",
        "ingest/connections/token_rotation.py",
        "self._spool.keep(pair, in_room=True)",
        "pass",
    ),
    Mutation(
        "The copy of a pair is deleted before the pair is committed.",
        "ingest/connections/token_rotation.py",
        "grant.replace(pair)",
        "self._spool.clear(); grant.replace(pair)",
    ),
    Mutation(
        "A pair on disk is never committed by the next process.",
        "ingest/connections/token_rotation.py",
        "if kept is None or not _is_newer(kept, grant.pair):",
        "if kept is None or not _is_newer(grant.pair, kept):",
    ),
    Mutation(
        "A new pair has the generation of the old one.",
        "ingest/connections/token_rotation.py",
        "generation, authorization = grant.pair.generation + 1, grant",
        "generation, authorization = grant.pair.generation, grant",
    ),
    Mutation(
        "Any refusal of a refresh ends the grant.",
        "ingest/connections/token_rotation.py",
        'if error.error != "invalid_grant":',
        'if error.error == "unauthorized":',
    ),
    Mutation(
        "The first pair of a new authorisation is not kept on disk.",
        "ingest/connections/token_rotation.py",
        "self._spool.keep(first)",
        "pass",
    ),
    Mutation(
        "A new key replaces the old one before anything is encrypted with it.",
        "ingest/connections/key_rotation.py",
        "write_keys(path, (new_key(), *keys))",
        "write_keys(path, (new_key(),))",
    ),
    Mutation(
        "Client secrets keep the old key.",
        "ingest/connections/key_rotation.py",
        "client_secrets=reseal_client_secrets(transaction, box),",
        "client_secrets=0,",
    ),
    Mutation(
        "Pairs on disk keep the old key.",
        "ingest/connections/key_rotation.py",
        "spools=reseal_spools(home / SPOOL_FOLDER, box),",
        "spools=0,",
    ),
)

_LOADS = (
    Mutation(
        "The lock of a slice is shared by its loads.",
        "warehouse/postgres/advisory_locks.py",
        '_HOLD = "SELECT pg_advisory_lock(',
        '_HOLD = "SELECT pg_advisory_lock_shared(',
    ),
    Mutation(
        "The lock of a slice ends with the transaction that took it.",
        "warehouse/postgres/advisory_locks.py",
        '_HOLD = "SELECT pg_advisory_lock(',
        '_HOLD = "SELECT pg_advisory_xact_lock(',
    ),
    Mutation(
        "Loads of different days of a month do not wait for each other.",
        "warehouse/loads/slices.py",
        "|{Window.month_of(window.start).start:%Y-%m}",
        "|{window}",
    ),
    Mutation(
        "The lock of a slice stays with its connection.",
        "warehouse/postgres/advisory_locks.py",
        "connection.exec_driver_sql(_RELEASE)",
        "pass",
    ),
    Mutation(
        "Removed rows are committed before the new ones.",
        "warehouse/loads/slices.py",
        'reach("slice.deleted")',
        "driver_of(self._connection).commit()",
    ),
    Mutation(
        "Rows are committed before their receipt.",
        "warehouse/loads/slices.py",
        'reach("slice.published")',
        "driver_of(self._connection).commit()",
    ),
    Mutation(
        "Rows of one load stay in the temporary table for the next.",
        "warehouse/loads/difference.py",
        "(LIKE {table}) ON COMMIT DELETE ROWS",
        "(LIKE {table}) ON COMMIT PRESERVE ROWS",
    ),
    Mutation(
        "Rows that are gone are not kept in history.",
        "warehouse/loads/difference.py",
        "SELECT {columns}, {load} FROM gone)",
        "SELECT {columns}, {load} FROM gone WHERE false)",
    ),
    Mutation(
        "Rows that are gone are said to be gone with the load that brought them.",
        "warehouse/loads/difference.py",
        "SELECT {columns}, {load} FROM gone)",
        "SELECT {columns}, load_id FROM gone)",
    ),
    Mutation(
        "A reading with as many rows as before is taken for unchanged.",
        "warehouse/loads/slices.py",
        "or previous.digest != self.spool.digest",
        "or previous.rows != self.spool.count",
    ),
    Mutation(
        "A load replaces the day after its window, too.",
        "warehouse/loads/slices.py",
        'sql.SQL("account = {} AND {column} >= {} AND {column} < {}")',
        'sql.SQL("account = {} AND {column} >= {} AND {column} <= {}")',
    ),
    Mutation(
        "A refresh does not read the current day.",
        "ingest/loads/slices.py",
        "month = request.month.until(today + timedelta(days=1))",
        "month = request.month.until(today)",
    ),
    Mutation(
        "The current day of an account is that of UTC.",
        "ingest/loads/slices.py",
        "today = now.astimezone(zone).date()",
        "today = now.date()",
    ),
)

_HOLDS = (
    Mutation(
        "An empty answer is believed.",
        "warehouse/loads/plausibility.py",
        "if stored.rows and not read.count:",
        "if not stored.rows and read.count:",
    ),
    Mutation(
        "A doubted reading is published at once.",
        "warehouse/loads/plausibility.py",
        "READINGS_TO_BELIEVE = 3",
        "READINGS_TO_BELIEVE = 1",
    ),
    Mutation(
        "A reading that loses rows is not judged.",
        "warehouse/loads/slices.py",
        "is_suspect = lacks_total or lacks_amounts or self._loses_rows(cursor, found)",
        "is_suspect = lacks_total or lacks_amounts",
    ),
    Mutation(
        "A held reading counts as a published one.",
        "warehouse/schema/tables.py",
        "IS_PUBLISHED = LOADS.c.verdict != HELD",
        'IS_PUBLISHED = LOADS.c.verdict != ""',
    ),
    Mutation(
        "A held reading raises no error.",
        "ingest/loads/slices.py",
        "if receipt.verdict is CountVerdict.HELD:",
        "if receipt.verdict is CountVerdict.HELD and receipt.changed:",
    ),
    Mutation(
        "A hold is ended by its own receipt.",
        "warehouse/loads/receipts.py",
        "later.c.id > LOADS.c.id)",
        "later.c.id >= LOADS.c.id)",
    ),
    Mutation(
        "A hold is ended by a load of some of its days.",
        "warehouse/loads/receipts.py",
        "and_(later.c.window_start <= LOADS.c.window_start, later.c.window_end >= LOADS.c.window_end),",
        "and_(later.c.window_start < LOADS.c.window_end, later.c.window_end > LOADS.c.window_start),",
    ),
    Mutation(
        "Rows of the past include those that were gone by then.",
        "warehouse/schema/functions.py",
        "FROM {former} WHERE NOT {is_later_load} AND {is_later_gone}",
        "FROM {former} WHERE NOT {is_later_load}",
    ),
)

_REPORTS = (
    Mutation(
        "A report is marked as loaded before its rows are committed.",
        "ingest/loads/reports.py",
        "facts = replace(facts, notes={**order, **facts.notes})",
        "facts = replace(facts, notes={**order}); _moved(database, job, replace(job, state=JobState.LOADED))",
    ),
    Mutation(
        "A report is stored under the day on which it is loaded.",
        "ingest/loads/reports.py",
        "day = job.requested_at.astimezone(account.zone).date()",
        "day = clock().astimezone(account.zone).date()",
    ),
    Mutation(
        "A report replaces the other reports of its day.",
        "warehouse/loads/slices.py",
        "return inside if report_id is None else",
        "return inside if self.slice.account else",
    ),
    Mutation(
        "A job is changed although another process changed it meanwhile.",
        "warehouse/jobs/report_jobs.py",
        'guards = ["id", "state", "attempt", "polls", ',
        'guards = ["id", ',
    ),
)

_BUDGETS = (
    Mutation(
        "Requests are counted and not limited.",
        "warehouse/connections/sent_requests.py",
        "WHERE sent.requests + excluded.requests <= (SELECT requests FROM room)",
        "WHERE sent.requests + excluded.requests <= 1000000",
    ),
)

_READERS = (
    Mutation(
        "Accounts that are no longer listed are not retired.",
        "warehouse/connections/accounts.py",
        "not_listed = ACCOUNTS.c.key.not_in(keys)",
        "not_listed = ACCOUNTS.c.key.in_([])",
    ),
    Mutation(
        "The registry does not follow the list of accounts.",
        "ingest/loads/accounts.py",
        "save_accounts(database, connection.name, [(account.key, account) for account in discovered.accounts])",
        "save_user(database, connection.name, user.id, user.name)",
    ),
    Mutation(
        "A load says that it kept the counts of days, and does not.",
        "warehouse/loads/slices.py",
        "summed = changed and keep_sums(",
        "summed = changed or keep_sums(",
    ),
    Mutation(
        "Days without rows keep their former count.",
        "warehouse/sums/keeping.py",
        "AND daily.local_day >= unsummed.first_day AND daily.local_day < unsummed.end_day",
        "AND daily.local_day IN (SELECT local_day FROM {table})",
    ),
)

MUTATIONS = (*_LISTS, *_TOKENS, *_LOADS, *_HOLDS, *_REPORTS, *_BUDGETS, *_READERS)


def search(mutation: Mutation, server: EmbeddedServer, *, seeds: Sequence[int]) -> Finding:
    """Play seeds with the mistake until one fails."""
    began = time.monotonic()
    with TemporaryDirectory(prefix="mutation-") as folder:
        shutil.copytree(_PACKAGE, Path(folder) / _PACKAGE.name)  # with its bytecode
        changed = Path(folder) / _PACKAGE.name / mutation.file
        changed.write_text(mutation.applied(changed.read_text()))
        seed, events, judgement = _played(folder, server, seeds)
    return Finding(mutation, seed, events, judgement, time.monotonic() - began)


def _played(folder: str, server: EmbeddedServer, seeds: Sequence[int]) -> _Result:
    """Play seeds in a process that imports the product from a folder.

    It is forked from one that has imported the libraries, and none of the product.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LIBRARIES)
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=play, args=(server.folder, seeds, there))
    sys.path.insert(0, folder)  # a new process has the path of this one
    try:
        process.start()
    finally:
        sys.path.remove(folder)
    there.close()
    with here:
        try:
            return cast(_Result, here.recv())
        except EOFError:
            raise RuntimeError("the process that plays seeds ended without a result") from None
        finally:
            process.join()


def play(folder: Path, seeds: Sequence[int], results: Connection) -> None:
    """Play seeds until one fails, and send that seed, its events, and what was wrong."""
    server, name = EmbeddedServer(folder), f"mutation_{os.getpid()}"
    player = Player(server, name)
    # Its database is a copy of one that the product without the mistake has made.
    with Database(server.database(name)) as database, database.begin() as connection:
        create_functions(connection)
    for seed in seeds:
        outcome = player.play(Plan.of(seed))
        if outcome.failure is not None:
            results.send((seed, outcome.events, outcome.failure.strip().splitlines()[-1]))
            return
    results.send((None, 0, ""))


def chosen(names: Sequence[str]) -> Iterator[Mutation]:
    """Yield the mutations whose name or file contains one of the texts; without texts, all of them."""
    for mutation in MUTATIONS:
        if not names or any(name in mutation.name or name in mutation.file for name in names):
            yield mutation


def show(findings: Iterable[Finding]) -> bool:
    """Print a table of findings, line by line, and return whether every mutation was found."""
    print(f"{'mutation':<86} {'seed':>9} {'events':>6} {'seconds':>7}", flush=True)
    missed = 0
    for finding in findings:
        print(finding, flush=True)
        missed += finding.seed is None
    return not missed


def main() -> int:
    """Search the mutations that are named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m seller_platform_tests.simulation.mutations")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds are played for each mutation at most")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of the name or of the file of mutations")
    given = parser.parse_args()
    with served() as server:
        findings = (search(each, server, seeds=range(1, given.seeds + 1)) for each in chosen(given.names))
        return 0 if show(findings) else 1


if __name__ == "__main__":
    sys.exit(main())
