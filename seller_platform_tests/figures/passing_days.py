"""A deployment whose clock passes a day every few seconds: its programs, what is planted, and what is measured."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg

from seller_platform.cli.installation import open_installation
from seller_platform.cli.output import Output
from seller_platform.cli.processes import Program, await_answer, free_port, running
from seller_platform.cli.sandbox.demo import connect_local_stack
from seller_platform.cli.sandbox.dev import dagster_commands
from seller_platform.cli.sandbox.local_stack import LocalStack, open_local_stack
from seller_platform.contract import REFRESHED
from seller_platform.contract.wire import SERVICE_STATUS
from seller_platform.orchestration.instance.home import dagster_home, open_instance
from seller_platform.orchestration.partitions import add_accounts
from seller_platform.warehouse.postgres.embedded import stop
from seller_platform.warehouse.postgres.location import SANDBOX, WAREHOUSE
from seller_platform_tests.figures.measuring import children, open_files, proportional_kib
from seller_platform_tests.support.clocks import MovedClock
from seller_platform_tests.support.deployment import Deployment
from seller_platform_tests.support.processes import COMMAND
from seller_platform_tests.support.waiting import wait_for

WEEK, MONTH = 7, 30
SERVICE, CODE_LOCATION, WEB_SERVER, DAEMON, LIVE = "service", "code-location", "webserver", "daemon", "live"
POSTGRESQL = "PostgreSQL"
OUTAGE, UPGRADE, MOVED_CLOCK = "outage of the upstream", "upgrade", "moved clock"
_TOO_LONG = "taking longer than 120 seconds to start"
_NO_UPSTREAM = ("UpstreamUnavailableError", "; try again when the upstream is back")
_NO_CODE_LOCATION = (
    "Tried to start a run on a server after telling it to shut down",
    "DagsterUserCodeUnreachableError",
    "_InactiveRpcError",
    "The process of the run ended together with its code server",
    "Execution was interrupted unexpectedly",
    "DagsterExecutionInterruptedError",
    "terminated by signal",
    "marked as failed from outside the execution context",
    _TOO_LONG,
)
_NO_POSTGRESQL = (
    "WarehouseUnavailableError",
    "PostgreSQL at ",
    "DagsterPostgresException",
    "OperationalError",
    "terminating connection",
    "server closed the connection",
)
# Lists are empty or short for a day at any time before the last days.
_HELD = ("the reading is held",)
_CAUSED = {
    SERVICE: _NO_UPSTREAM,
    OUTAGE: _NO_UPSTREAM,
    CODE_LOCATION: _NO_CODE_LOCATION,
    POSTGRESQL: (*_NO_POSTGRESQL, *_NO_UPSTREAM),  # the service has the same server
    UPGRADE: (*_NO_UPSTREAM, *_NO_CODE_LOCATION),  # it starts all programs again
    MOVED_CLOCK: (_TOO_LONG,),  # the run was starting when a day became the next
}
"""What the reason of a failed run may contain, by what was planted."""

_own_kib = partial(proportional_kib, shared_memory=False)
_URL = "SELLER_PLATFORM_DATABASE_URL"
_AREAS = len({dataset.area for dataset in REFRESHED})
_REFRESH, _NOON = timedelta(hours=11), timedelta(hours=11, seconds=30)
_OUTAGE_EVERY = 20
_QUIET_DAYS = 10
"""The last days, which have no outages: a reading that is held is published when three say the same."""
_LISTS_PERCENT = 1.0
_SETTINGS = {"SELLER_PLATFORM_SECOND_READING_SECONDS": "1", "SELLER_PLATFORM_SERVICE_GRANT_DAYS": "400"}
"""By default a list is read once more after a minute, which would be as long as a week, and a grant ends on day 365."""
_LATE = 3
_LOOK_SECONDS = 0.5
_LONGEST_DAY_SECONDS = 1800.0

_TABLES = """
SELECT nspname || '.' || relname, (
    SELECT sum(pg_total_relation_size(relid)) FROM (SELECT relid FROM pg_partition_tree(pg_class.oid)
                                                    UNION SELECT pg_class.oid) AS parts
)::bigint
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname IN ('dagster', 'platform', 'service', 'seller', 'history', 'marts')
  AND relkind IN ('r', 'p') AND NOT relispartition
"""
_CONNECTIONS = "SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'"
_SCHEDULES = "SELECT count(*) FROM dagster.instigators WHERE instigator_type = 'SCHEDULE'"
_REFRESHES = """
SELECT count(DISTINCT selector_id) FROM dagster.job_ticks
WHERE type = 'SCHEDULE' AND status <> 'STARTED' AND timestamp >= %s AND tick_body LIKE '%%"refresh\\_%%'
"""
# The daemon gives a run up that has not started within two minutes.
_STARTING = "SELECT count(*) FROM dagster.runs WHERE status IN ('NOT_STARTED', 'STARTING')"
_UNDER_WAY = "SELECT count(*) FROM dagster.runs WHERE status <> ALL ('{SUCCESS,FAILURE,CANCELED}')"
# A schedule requests again what a run has not done that was created more than a day ago.
_OLDER = f"{_UNDER_WAY} AND create_timestamp < %s"
_RUNS = "SELECT count(*) FROM dagster.runs WHERE create_timestamp >= %s"
_PROBLEMS = "SELECT kind, count(*) FROM platform.problems GROUP BY kind"
_FAILURES = """
SELECT run_id, pipeline_name, (
    SELECT string_agg(coalesce(logged #>> '{dagster_event,event_specific_data,error,cause,message}',
                               logged #>> '{dagster_event,event_specific_data,error,message}',
                               logged #>> '{dagster_event,message}', logged ->> 'user_message'), ' | ' ORDER BY id)
    FROM dagster.event_logs CROSS JOIN LATERAL (SELECT event::jsonb AS logged) AS parsed
    WHERE event_logs.run_id = runs.run_id
      AND (dagster_event_type IN ('STEP_FAILURE', 'PIPELINE_FAILURE', 'PIPELINE_CANCELED')
           OR dagster_event_type = 'ENGINE_EVENT' AND logged #>> '{dagster_event,event_specific_data,error}' <> '')),
    EXISTS (SELECT FROM dagster.event_logs WHERE event_logs.run_id = runs.run_id
            AND dagster_event_type = 'PIPELINE_STARTING' AND timestamp::date < update_timestamp::date)
FROM dagster.runs WHERE status IN ('FAILURE', 'CANCELED') AND run_id <> ALL (%s)
"""


@dataclass
class Day:
    """What was measured at the end of a day.

    Attributes:
        planted: What was planted on the day.
        seconds: How long it took.
        runs: The runs of Dagster that were created on it.
        mib: The memory of each program with its children, without the processes of runs. PostgreSQL's buffers, which
            have a fixed size and fill slowly, are left out.
        files: The open files of each.
        connections: Those to PostgreSQL.
        home_files: The files in the home folder, such as logs of runs.
        rows: The rows of each table of the warehouse and of the service, as `warehouse: dagster.runs`.
        sizes: The bytes of each table, with its indexes.
        problems: The rows of `platform.problems`, by kind.
    """

    number: int
    planted: Sequence[str]
    seconds: float
    runs: int
    mib: Mapping[str, float]
    files: Mapping[str, int]
    connections: int
    home_files: int
    rows: Mapping[str, int]
    sizes: Mapping[str, int]
    problems: Mapping[str, int]

    def rows_of(self, schema: str) -> int:
        """Return how many rows the tables of a database's schema have, which is named as in `warehouse: seller`."""
        return sum(count for name, count in self.rows.items() if name.startswith(f"{schema}."))

    def __str__(self) -> str:
        memory = ", ".join(f"{name} {mib:.0f}" for name, mib in self.mib.items())
        files, problems = sum(self.files.values()), sum(self.problems.values())
        return (
            f"day {self.number}: {self.seconds:.0f} s, {self.runs} runs, MiB: {memory}; {files} files, "
            f"{self.connections} connections, {problems} problems; planted: {', '.join(self.planted) or 'nothing'}"
        )


@dataclass
class FailedRun:
    """A run that failed or was canceled.

    Attributes:
        day: The day on which that was seen.
        planted: What was planted on that day and the one before, and whether the clock was moved while it was starting.
    """

    day: int
    job: str
    reason: str
    planted: Sequence[str]

    @property
    def has_cause(self) -> bool:
        """Whether something was planted that fails a run for such a reason."""
        texts = [text for each in self.planted for text in _CAUSED.get(each, ())]
        return any(text in self.reason for text in (*_HELD, *texts))


@dataclass
class PassingDays:
    """A running deployment, its clock, and what was measured.

    Attributes:
        start_quiet: Starts the program that advances the sandbox, without outages of lists.
        first: The day on which it was started.
    """

    stack: LocalStack
    clock: MovedClock
    programs: dict[str, Program]
    ui: Deployment
    start_quiet: Callable[[], Program]
    days: list[Day] = field(default_factory=list)
    failed: dict[str, FailedRun] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first = self.clock.now().date()

    def run(self, days: int, seconds: float) -> None:
        """Let days pass, and measure each at its end.

        A day ends when its work is done; on a busy machine earlier, and the next day does the rest.

        Args:
            seconds: How long a day lasts at least. After three times as long, it ends as soon as the runs of earlier
                days have.
        """
        for number in range(1, days + 1):
            began, planted = time.monotonic(), list(self._planted(number, days))
            self._move_to(self.first + timedelta(days=number))
            for each in planted:
                self._plant(each)
            if number == max(1, days - _QUIET_DAYS):
                self.programs[LIVE].end()
                self.programs[LIVE] = self.start_quiet()
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            if OUTAGE in planted:
                self._start(SERVICE)
            self._await_end(began, seconds)
            self.days.append(self._measured(number, planted, time.monotonic() - began))
            print(self.days[-1], file=sys.stderr, flush=True)
        wait_for(self._is_done, pause_seconds=_LOOK_SECONDS, seconds=_LONGEST_DAY_SECONDS)
        self._note_failures(days, [])

    def settle(self) -> str:
        """Let the sandbox end, load what it listed last, and return what `verify` finds; empty for no difference."""
        self.programs[LIVE].end()
        today = self.clock.now().date()
        monday = today + timedelta(days=WEEK - today.weekday())  # on Sundays closed months are read again
        self._move_to(monday)
        wait_for(self._is_done, pause_seconds=_LOOK_SECONDS, seconds=_LONGEST_DAY_SECONDS)
        self._note_failures(len(self.days) + 1, [])
        ended = self._command("verify", "--json", check=False)
        return "" if ended.returncode == 0 else ended.stderr.strip() or ended.stdout

    def count(self, statement: str, *values: object) -> int:
        """Return what a statement counts in the warehouse."""
        with self._connect() as connection:
            (count,) = connection.execute(statement.encode(), values).fetchone() or (0,)
        return int(count)

    def _planted(self, number: int, days: int) -> Iterator[str]:
        if number == days // 2:
            yield UPGRADE
        for offset, name in enumerate((*self.programs, "")):
            if name and (number + offset) % WEEK == 0:
                yield name
        if number % MONTH == MONTH // 2:
            yield POSTGRESQL
        if number % MONTH == 2 * MONTH // 3:
            yield "keys"
        if number % _OUTAGE_EVERY == _OUTAGE_EVERY // 2 and number <= days - _QUIET_DAYS:
            yield OUTAGE

    def _plant(self, planted: str) -> None:
        if planted == UPGRADE:
            self._upgrade()
        elif planted == POSTGRESQL:
            self.programs[LIVE].end()  # it would end with an error
            stop(self.stack.server.data_folder)
            self.stack.server.revive()
            self._start(LIVE)
        elif planted == OUTAGE:
            self.programs[SERVICE].end()
        elif planted == "keys":
            self._command("keys", "rotate")
        else:
            self.programs[planted].end()
            self._start(planted)

    def _upgrade(self) -> None:
        """Upgrade the warehouse to a made-up next version while all programs use it, and start them again."""
        next_version = [sys.executable, "-m", "seller_platform_tests.next_versions", "1"]
        subprocess.run(next_version, check=True, stdout=subprocess.DEVNULL)
        for name, program in self.programs.items():
            program.end()
            self._start(name)

    def _start(self, name: str) -> None:
        self.programs[name].start()
        if name == SERVICE:
            await_answer(f"{self.stack.base_url}{SERVICE_STATUS}", self.programs[name])
        if name == WEB_SERVER:
            await_answer(f"{self.ui.told['Dagster UI']}/server_info", self.programs[name])

    def _move_to(self, day: date) -> None:
        """Move the clock to noon at a moment at which no run is starting: the daemon would give it up."""
        noon = datetime(day.year, day.month, day.day, tzinfo=UTC) + _NOON
        daemon = self.programs[DAEMON].process

        def is_moved() -> bool:
            daemon.send_signal(signal.SIGSTOP)  # it launches the runs
            try:
                is_starting = self.count(_STARTING) > 0
                if not is_starting:
                    self.clock.move(self.clock.ahead + max(timedelta(), noon - self.clock.now()))
            finally:
                daemon.send_signal(signal.SIGCONT)
            return not is_starting

        wait_for(is_moved, pause_seconds=_LOOK_SECONDS, seconds=_LONGEST_DAY_SECONDS)

    def _await_end(self, began: float, seconds: float) -> None:
        """Wait until the work of a day is done that began at a moment of the monotonic clock."""
        today = self.clock.now().replace(tzinfo=None, hour=0, minute=0)

        def is_over() -> bool:
            is_late = time.monotonic() > began + _LATE * seconds
            return self._is_done() or (is_late and not self.count(_OLDER, today))

        wait_for(is_over, pause_seconds=_LOOK_SECONDS, seconds=_LONGEST_DAY_SECONDS)

    def _is_done(self) -> bool:
        """Return whether the sandbox has the day, all schedules of the refresh were evaluated, and no run is left."""
        today = self.clock.now().date()
        tick = datetime(today.year, today.month, today.day) + _REFRESH  # noqa: DTZ001  # as Dagster stores it
        live = self.programs[LIVE]
        is_reached = live.has_ended or f"\n{today}  " in f"\n{live.log.read_text()}"
        return is_reached and self.count(_REFRESHES, tick) == _AREAS and not self.count(_UNDER_WAY)

    def _note_failures(self, number: int, planted: Sequence[str]) -> None:
        """Add the runs that have failed since they were last noted."""
        before = self.days[-1].planted if self.days else ()
        with self._connect() as connection:
            for run, job, reason, was_moved in connection.execute(_FAILURES, [list(self.failed)]).fetchall():
                causes = [*before, *planted, *([MOVED_CLOCK] if was_moved else [])]
                self.failed[run] = FailedRun(number, job, str(reason), causes)

    def _measured(self, number: int, planted: Sequence[str], seconds: float) -> Day:
        pids = {name: program.process.pid for name, program in self.programs.items()}
        pids[POSTGRESQL] = int((self.stack.server.data_folder / "postmaster.pid").read_text().split()[0])
        processes = {name: [pid, *children(pid)] for name, pid in pids.items()}
        self.ui.state()
        self._note_failures(number, planted)
        noon = datetime.combine(self.first + timedelta(days=number), datetime.min.time())
        with self._connect() as connection:
            (connections,) = connection.execute(_CONNECTIONS).fetchone() or (0,)
            problems = dict(connection.execute(_PROBLEMS).fetchall())
        rows, sizes = self._tables()
        return Day(
            number,
            planted,
            round(seconds, 1),
            self.count(_RUNS, noon),
            {name: round(sum(map(_own_kib, each)) / 1024, 1) for name, each in processes.items()},
            {name: sum(map(open_files, each)) for name, each in processes.items()},
            connections,
            sum(len(files) for _, _, files in os.walk(self.stack.home)),
            rows,
            sizes,
            problems,
        )

    def _tables(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the rows and the bytes of the tables of both databases."""
        rows, sizes = dict[str, int](), dict[str, int]()
        for database, url in ((WAREHOUSE, os.environ[_URL]), (SANDBOX, self.stack.sandbox_url)):
            with psycopg.connect(url, autocommit=True) as connection:
                for name, size in connection.execute(_TABLES).fetchall():
                    counted = connection.execute(f"SELECT count(*) FROM {name}".encode()).fetchone() or (0,)
                    rows[f"{database}: {name}"], sizes[f"{database}: {name}"] = int(counted[0]), int(size)
        return rows, sizes

    def _command(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
        assert not check or ended.returncode == 0, ended.stdout + ended.stderr
        return ended

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(os.environ[_URL], autocommit=True)


@contextmanager
def passing_days(home: Path, *, accounts: int, months: int) -> Iterator[PassingDays]:
    """Run a deployment under a clock of its own until the block ends."""
    clock, output = MovedClock(home), Output(as_json=False)
    with mock.patch.dict(os.environ, {**clock.environment, **_SETTINGS}), ExitStack() as opened:
        stack = opened.enter_context(open_local_stack(home, output, port=free_port(), accounts=accounts, months=months))
        os.environ.update(stack.environment)
        with open_installation() as installation:
            discovered = connect_local_stack(installation, stack, output)
            with open_instance(installation.settings.home) as instance:
                add_accounts(instance, [each.key for each in discovered])
            os.environ["DAGSTER_HOME"] = str(dagster_home(installation.settings.home))
        address = f"http://127.0.0.1:{free_port()}"
        live = [*COMMAND, "sandbox", "live", "--continue", "--database-url", stack.sandbox_url]
        live += ["--from", f"{clock.now().date()}", "--accounts", f"{accounts}", "--months", f"{months}"]
        commands = {**dagster_commands(stack.home, address), LIVE: [*live, "--days-per-second", "100"]}

        def start(name: str, *options: str) -> Program:
            log = stack.home / f"{name}.log"
            return opened.enter_context(running(name, [*commands[name], *options], {}, log))

        programs = {name: start(name) for name in (CODE_LOCATION, WEB_SERVER, DAEMON)}
        programs = {SERVICE: stack.service, **programs, LIVE: start(LIVE, "--outages", f"{_LISTS_PERCENT}")}
        ui = Deployment(programs[WEB_SERVER].process, home, {"Dagster UI": address})
        days = PassingDays(stack, clock, programs, ui, lambda: start(LIVE))
        await_answer(f"{address}/server_info", programs[WEB_SERVER])
        # A schedule has no ticks of the time before the daemon has seen it.
        wait_for(lambda: days.count(_SCHEDULES) >= _AREAS, pause_seconds=_LOOK_SECONDS)
        yield days
