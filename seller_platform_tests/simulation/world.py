"""One run: a world with its processes, its upstream, its faults and its judge."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random, seed
from shutil import rmtree

from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.retries import RequestClock
from seller_platform.client.oauth.tokens import GrantAuth, TokenEndpoint
from seller_platform.contract import Dataset, Window
from seller_platform.contract.tokens import TokenPair
from seller_platform.contract.wire import ACCESS_TOKEN_SECONDS
from seller_platform.errors import ReadingHeldError, ReauthorizationRequiredError, SellerPlatformError
from seller_platform.ingest.connections.token_rotation import GrantKeeper, PairSpool
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.connections.secrets import SecretBox
from seller_platform.warehouse.jobs.report_jobs import AWAITED, newest_jobs
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.simulation import actors
from seller_platform_tests.simulation.clock import START, VirtualClock
from seller_platform_tests.simulation.connections import Server
from seller_platform_tests.simulation.faults import Faults, FaultyTransport
from seller_platform_tests.simulation.log import EventLog
from seller_platform_tests.simulation.model import Model, Violation
from seller_platform_tests.simulation.plan import PROCESSES, Item, Plan
from seller_platform_tests.simulation.scheduler import Actor, Scheduler
from seller_platform_tests.simulation.tables import read_tables, rows_as_of
from seller_platform_tests.simulation.threads import use_scheduler
from seller_platform_tests.simulation.upstream import (
    BASE_URL,
    CLIENT_ID,
    CLIENT_SECRET,
    DATED,
    REDIRECT_URI,
    SNAPSHOT,
    UpstreamModel,
)

_MOST_EVENTS = 5_000
_DOWN_SECONDS = 3.0
_OPERATOR = "quiet"
_FAILPOINTS = (
    *("slice.copied", "slice.deleted", "slice.published", "slice.receipted", "slice.committed"),
    *("rotation.intended", "rotation.received", "rotation.spooled", "rotation.replaced", "rotation.committed"),
    "rotation.cleared",
)

_POINTS = {"tokens": "rotation.", "loads": "slice.", "reports": "slice."}
"""The failpoints at which a process is killed, by the subject of the run."""


class Process:
    """A simulated process: what it has in memory is lost when it is killed."""

    def __init__(self, world: "World", name: str, database: Database) -> None:
        self.world, self.name, self.database = world, name, database
        self.start()

    def start(self) -> None:
        """Begin with nothing in memory."""
        world, clock = self.world, self.world.clock
        transport = FaultyTransport(world.scheduler, world.upstream, world.faults, self._hear)
        requests = RequestClock(clock.monotonic, clock.now)
        endpoint = TokenEndpoint(BASE_URL, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI, transport, clock=requests)
        grants, spool = Grants(self.database, world.box), PairSpool(world.folder, actors.CONNECTION, world.box)
        self.keeper = GrantKeeper(actors.CONNECTION, grants, endpoint, spool, now=clock.now)
        self.api = SellerApi(BASE_URL, auth=GrantAuth(self.keeper), transport=transport, clock=requests)
        self.heard: int | None = None

    def _hear(self, generation: int) -> None:
        self.heard = generation


class World:
    """A run of a plan.

    Attributes:
        datasets: The lists of this run.
        months: The months of the history, oldest first.
        connecting: The actor that authorises the connection again.
    """

    def __init__(
        self, server: Server, databases: dict[str, Database], box: SecretBox, folder: Path, plan: Plan
    ) -> None:
        random = Random(f"world {plan.seed}")
        seed(f"product {plan.seed}")  # the product draws the pauses between its attempts
        self.server, self.box, self.folder, self.plan = server, box, folder, plan
        self.clock, self.log, self.faults = VirtualClock(), EventLog(), Faults()
        self.scheduler = Scheduler(self.clock, self.log, Random(f"turns {plan.seed}"), random.choice((0.0, 0.5, 0.9)))
        server.scheduler = self.scheduler
        use_scheduler(self.scheduler)
        self.datasets: list[Dataset] = random.choice(
            ([DATED[0]], [DATED[1]], [DATED[0], SNAPSHOT], [*DATED], [SNAPSHOT])
        )
        self._is_long = random.random() < 0.3
        ages = (0, 0, 0, 0, 1, 1) if plan.focus == "lists" else (0, 1, 2, 8, 24) if self._is_long else (0, 1, 2, 8)
        self.upstream = UpstreamModel(
            self.clock,
            random,
            self.datasets,
            page_size=random.choice((2, 3) if plan.focus == "lists" else (2, 4, 1000, 1000)),
            ages=ages,
        )
        self.account = self.upstream.account
        self._first = (START - timedelta(days=25 if self._is_long else 10)).date()
        self.model = Model(self.upstream)
        self.processes = {name: Process(self, name, databases[name]) for name in (*PROCESSES, _OPERATOR)}
        self.failures: list[str] = []
        self.connecting: Actor | None = None
        self._runs = 0
        self._deadly: str | None = None
        self._doomed: str | None = None
        self._down_until = 0.0

    @property
    def months(self) -> list[Window]:
        """The months from the one before the start to the current one."""
        return [*Window(Window.month_of(self._first).start, Window.month_of(self.upstream.today).end).months()]

    def say(self, text: str) -> None:
        """Add a line to the log."""
        actor = self.scheduler.current
        self.log.add(self.clock.monotonic(), actor.name if actor else "world", "note", text)

    def next_run(self, process: Process) -> str:
        """Return the id of a new run."""
        self._runs += 1
        return f"{process.name}-{self._runs}"

    def tell_failure(self, report: str) -> None:
        """Remember that the failure of a report was reported."""
        self.failures.append(report)

    def play(self) -> None:
        """Play the run.

        Raises:
            Violation: A promise of the product is broken.
        """
        self._prepare()
        items = self.plan.kept
        while True:
            while items and (len(self.log) >= items[0].at or not self.scheduler.actors):
                self._happen(items.pop(0))
            if not self._step() and not items:
                break
        self.faults.are_off, self._deadly = True, None
        self.server.is_down = False
        self.scheduler.start(_OPERATOR, _OPERATOR, self._settle)
        while self._step():
            pass

    def reached(self, name: str) -> None:
        """Yield at a failpoint."""
        actor = self.scheduler.current
        if actor is None:
            return
        if name == "rotation.spooled" and (heard := self.processes[actor.process].heard) is not None:
            self.upstream.tokens.received.add(heard)
        if name == self._deadly:
            self._deadly, self._doomed = None, actor.process
        self.scheduler.yield_turn("reach", name)

    def _prepare(self) -> None:
        rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        database = self.processes[_OPERATOR].database
        save_connection(database, KnownConnection(actors.CONNECTION, BASE_URL, BASE_URL, CLIENT_ID))
        save_accounts(database, actors.CONNECTION, [(self.account.key, self.account)])
        names = self.upstream.tokens
        names.received.add(1)
        names.is_kept = True
        pair = TokenPair(names.name("access"), names.name("refresh"), self.clock.now(), ACCESS_TOKEN_SECONDS)
        Grants(database, self.box).store(actors.CONNECTION, pair)
        self.model.observe(read_tables(self.server.own, self.datasets))

    def _step(self) -> bool:
        """Let one actor go on, judge, and return whether one was left."""
        if self.server.is_down and self.clock.monotonic() >= self._down_until:
            self.server.is_down = False
        actor = self.scheduler.run_event()
        self._judge()
        if self._doomed is not None:
            self.log.add(self.clock.monotonic(), self._doomed, "killed", "")
            self._kill(self._doomed)
            self._doomed = None
        if len(self.log) > _MOST_EVENTS:
            raise Violation(f"the run does not end within {_MOST_EVENTS} events")
        return actor is not None

    def _judge(self) -> None:
        if self.server.changed:
            self.server.changed = False
            self.model.observe(read_tables(self.server.own, self.datasets))
        self.model.judge_tokens()

    def _happen(self, item: Item) -> None:
        self.log.add(self.clock.monotonic(), "plan", item.kind, f"{item.number} {item.process}")
        random = Random(item.chance)
        if item.kind == "answer":
            self.faults.arm(random)
        elif item.kind == "kill":
            if random.random() < 0.4:
                self._kill(item.process)
            else:
                points = [each for each in _FAILPOINTS if each.startswith(_POINTS.get(self.plan.focus, ""))]
                self._deadly = random.choice(points)
        elif item.kind == "outage":
            self.faults.outage_until = self.clock.monotonic() + random.choice((30.0, 300.0, 4 * 86_400.0))
        elif item.kind == "restart":
            self.server.is_down, self._down_until = True, self.clock.monotonic() + _DOWN_SECONDS
            self.server.sever(lambda _: True)
        elif item.kind in {"change", "advance"}:
            actors.ACTIONS[item.kind](self, self.processes[item.process], random)
        else:
            process = self.processes[item.process]
            self.scheduler.start(
                item.process, f"{item.process}/{item.number}", partial(self._act, item.kind, process, random)
            )

    def _act(self, kind: str, process: Process, random: Random) -> None:
        try:
            actors.ACTIONS[kind](self, process, random)
        except SellerPlatformError as error:
            self.say(f"ended with {type(error).__name__}")

    def _kill(self, name: str) -> None:
        if not any(self.scheduler.of_process(name)):
            return
        self.server.sever(lambda connection: connection.process == name)
        self.scheduler.kill(name)
        self.processes[name].start()

    def _settle(self) -> None:
        """Load everything while nothing fails, and compare it with the upstream."""
        process = self.processes[_OPERATOR]
        try:
            process.keeper.token()
        except ReauthorizationRequiredError:
            self.model.judge_refusal()
            actors.connect(self, process)
        self._settle_reports(process)
        self.clock.advance(24 * 3600)
        if self.model.believed_claims or self.model.reverted:
            requests = [
                SliceRequest(dataset, self.account.key, month)
                for dataset in self.datasets
                for month in (self.months if dataset.is_dated else [None])
            ]
            results = actors.load_all(self, process, requests, whole=True)
        else:
            results = actors.refresh_due(self, process)
        for held in open_holds(process.database):
            self.model.accepted_by_operator = True
            actors.accept(self, process, Random(held.id))
        for result in results:
            if result.error is not None and not isinstance(result.error, ReadingHeldError):
                raise Violation(f"{result.request}: {result.error}")
        self.model.judge_holds([each.id for each in open_holds(process.database)])
        self.model.judge_quiet()
        self.model.judge_moments(Random(self._runs), partial(rows_as_of, self.server.own))

    def _settle_reports(self, process: Process) -> None:
        for _ in range(40):
            jobs = newest_jobs(process.database, [self.account.key], limit=100)
            if all(job.state not in AWAITED for job in jobs):
                break
            self.clock.advance(300)
            actors.poll(self, process, Random(0))
        else:
            raise Violation(f"reports are awaited for ever: {[str(job) for job in jobs]}")
        actors.load_reports(self, process)
