"""One run: a world with its processes, its upstream, its faults and its judge."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
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
from seller_platform.errors import ReadingHeldError, ReauthorizationRequiredError, SecretKeyError, SellerPlatformError
from seller_platform.ingest.connections.request_budget import DailyRequests
from seller_platform.ingest.connections.token_rotation import SPOOL_FOLDER, GrantKeeper, PairSpool
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.reports.jobs import AWAITED, newest_jobs
from seller_platform.warehouse.connections.accounts import (
    KnownConnection,
    accounts,
    client_secret_of,
    save_accounts,
    save_client_secret,
    save_connection,
)
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.connections.secrets import SecretBox, key_file, new_key, write_keys
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.refusals import refusals
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.simulation import actors
from seller_platform_tests.simulation.clock import VirtualClock
from seller_platform_tests.simulation.connections import GARBLING, Server
from seller_platform_tests.simulation.facts import Violation
from seller_platform_tests.simulation.faults import ALL_KINDS, KINDS_OF_FOCUS, Faults, FaultyTransport
from seller_platform_tests.simulation.marts import judge_marts
from seller_platform_tests.simulation.model import Model
from seller_platform_tests.simulation.plan import PROCESSES, Item, Plan
from seller_platform_tests.simulation.reach import named_in
from seller_platform_tests.simulation.scheduler import Actor, EventLog, Scheduler
from seller_platform_tests.simulation.tables import kept_slices, kept_sums, named_problems, read_tables
from seller_platform_tests.simulation.threads import use_scheduler
from seller_platform_tests.simulation.upstream import (
    BASE_URL,
    CLIENT_ID,
    CLIENT_SECRET,
    DATED,
    LIES,
    REDIRECT_URI,
    SNAPSHOT,
    UpstreamModel,
)

_FIRST_DAYS = (0, 0, 11, 12, 13)
"""How many days after the start of time runs begin: amid a month, and around its end."""

_LIED_DAYS = ("settled", "settled", "two", "two", "two", "recent", "recent", "all")
_ONE_ROW_A_DAY = (0, 1, 8, 20, 21, 22, 23)
_AGES_OF_CONTENTS = (
    *((0, 1, 8, *(20, 21, 22, 23) * 3),) * 2,
    *(_ONE_ROW_A_DAY,) * 2,
    *((*(0, 1, 8) * 28, *(20, 21, 22, 23) * 28),) * 2,  # days of which a part may be missing
    (20, 21, 22, 23) * 6,  # no day that may still change
)

_COUNTED = "SELECT day, requests FROM platform.sent_requests"
_MOST_EVENTS = 5_000
_DOWN_SECONDS = 3.0
_OPERATOR = "quiet"
_DEADLY = (
    *("slice.copied", "slice.deleted", "slice.published", "slice.receipted", "slice.committed"),
    *("rotation.intended", "rotation.received", "rotation.committed", "rotation.cleared"),
    *("rotation.spooled", "rotation.replaced") * 3,  # a pair is on disk alone
    *("commit", "INSERT platform.grants", "POST /reports/request"),
)
"""The failpoints, and the subjects of other events, at which a process is killed."""

_POINTS = {
    "tokens": ("INSERT platform.grants", "rotation."),
    "loads": ("commit", "slice."),
    "reports": ("commit", "slice.", "POST /reports/request"),
}
"""The beginnings of the points at which a process is killed, by the subject of the run; by default any failpoint."""


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
        self.box = SecretBox(key_file(world.home))
        self.grants = Grants(self.database, self.box)
        spool = PairSpool(world.home / SPOOL_FOLDER, actors.CONNECTION, self.box)
        self.keeper = GrantKeeper(actors.CONNECTION, self.grants, endpoint, spool, now=clock.now)
        meter = None
        if world.per_day is not None and self.name != _OPERATOR:
            meter = DailyRequests(self.database, actors.CONNECTION, world.per_day, clock.now)
        self.api = SellerApi(BASE_URL, auth=GrantAuth(self.keeper), meter=meter, transport=transport, clock=requests)
        self.heard: str | None = None

    def _hear(self, refresh_token: str) -> None:
        self.heard = refresh_token


class World:
    """A run of a plan.

    Attributes:
        connecting: The actor that authorises the connection again.
        changing_keys: The actor that replaces the secret key.
        per_day: How many requests a day the connection may send; None for any number.
        is_discovered: Whether the list of accounts was published.
        has_marts: Whether a mart is built in this run.
        met: What this run reached, as in `reach`.
    """

    def __init__(self, server: Server, databases: dict[str, Database], home: Path, plan: Plan) -> None:
        random = Random(f"world {plan.seed}")
        seed(f"product {plan.seed}")  # the product draws the pauses between its attempts
        self.server, self.home, self.plan = server, home, plan
        self.clock, self.log = VirtualClock(), EventLog()
        self.met: set[str] = set()
        self.faults = Faults(KINDS_OF_FOCUS.get(plan.focus, ALL_KINDS), self.met)
        self.clock.advance(random.choice(_FIRST_DAYS) * 86_400)
        self.per_day = random.choice((1, 2, 5, 8, 12)) if plan.focus == "budget" else None
        self.scheduler = Scheduler(self.clock, self.log, Random(f"turns {plan.seed}"), random.choice((0.0, 0.5, 0.9)))
        server.garble({})
        server.scheduler = self.scheduler
        use_scheduler(self.scheduler)
        self.datasets: list[Dataset] = random.choice(
            ([DATED[0]], [DATED[1]], [DATED[0], SNAPSHOT], [*DATED], [SNAPSHOT])
        )
        obeys_filter = plan.focus != "lists" or random.random() < 0.7
        if not obeys_filter:
            self.datasets = [DATED[1]]
        if plan.focus == "contents":
            self.datasets = [DATED[0]]
        self._is_long = random.random() < 0.3 or plan.focus == "contents"
        ages: Sequence[int] = (
            (0, 0, 0, 0, 0, 0, 1) if plan.focus == "lists" else (0, 1, 2, 8, 24) if self._is_long else (0, 1, 2, 8)
        )
        if plan.focus == "contents":
            ages = random.choice(_AGES_OF_CONTENTS)
        self.upstream = UpstreamModel(
            self.clock,
            random,
            self.datasets,
            # Where pages end, a client may read a part of a lie, which is another list.
            page_size=1000
            if plan.focus == "contents"
            else random.choice((2, 3) if plan.focus == "lists" and obeys_filter else (2, 4, 1000, 1000)),
            ages=ages,
            rows_of_an_age=(1,) if ages == _ONE_ROW_A_DAY else (0, 1, 2, 2),
            obeys_filter=obeys_filter,
        )
        self._approach_midnight(random)
        self.account = self.upstream.account
        self._first = (self.clock.now() - timedelta(days=25 if self._is_long else 10)).date()
        self.model = Model(self.upstream, self.per_day)
        rmtree(home, ignore_errors=True)
        home.mkdir()
        write_keys(key_file(home), [new_key()])
        self.processes = {name: Process(self, name, databases[name]) for name in (*PROCESSES, _OPERATOR)}
        self.failures: list[str] = []
        self.connecting: Actor | None = None
        self.changing_keys: Actor | None = None
        self.is_discovered = self.has_marts = False
        self._runs, self._was_killed = 0, False
        self._deadly: str | None = None
        self._down_until = 0.0

    def _approach_midnight(self, random: Random) -> None:
        """Let some runs begin shortly before a day ends, of the account or of UTC."""
        zone = random.choice((None, None, UTC, self.upstream.zone))
        if zone is not None or (self.per_day is not None and random.random() < 0.5):
            now = self.clock.now().astimezone(zone or UTC)
            midnight = datetime.combine(now.date() + timedelta(days=1), time(), zone or UTC)
            self.clock.advance((midnight - now).total_seconds() - random.choice((2.0, 10.0)))

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

    def play(self) -> None:
        """Play the run."""
        self._prepare()
        items = self.plan.kept
        while len(self.log) < self.plan.last_event:
            while items and self._is_time_for(items[0]):
                self._happen(items.pop(0))
            if not self._step() and not items:
                break
        else:
            for name in PROCESSES:
                self._kill(name)
        if self.per_day is not None and not self._was_killed:
            self.model.judge_counted(dict(self.server.own.execute(_COUNTED).fetchall()))
        self.faults.are_off, self._deadly = True, None
        self.server.is_down = False
        self.scheduler.start(_OPERATOR, _OPERATOR, self._settle)
        while self._step():
            pass

    def _is_time_for(self, item: Item) -> bool:
        if not self.scheduler.actors:
            return True
        waits = item.kind in actors.WHILE_IDLE
        if item.kind == "outage" and self.plan.focus == "contents":
            # A lie is about rows that were read before, and a second one would replace the first.
            read = {each["window_start"] for each in self._tables.receipts.values()}
            waits = len(read) < len(self.months) or self.clock.monotonic() < self.faults.outage_until
        return len(self.log) >= item.at and not waits

    def reached(self, name: str) -> None:
        """Yield at a failpoint."""
        self.met.add(f"failpoint {name}")
        actor = self.scheduler.current
        if actor is None:
            return
        if name == "rotation.spooled" and (heard := self.processes[actor.process].heard) is not None:
            kind_and_family, _, generation = heard.rpartition("-")
            if kind_and_family == f"refresh-{self.upstream.tokens.family}":
                self.upstream.tokens.received.add(int(generation))
        self.scheduler.yield_turn("reach", name)

    def _prepare(self) -> None:
        operator = self.processes[_OPERATOR]
        database = operator.database
        save_connection(database, KnownConnection(actors.CONNECTION, BASE_URL, BASE_URL, CLIENT_ID))
        self.register_accounts()
        names = self.upstream.tokens
        names.received.add(1)
        names.is_kept = True
        pair = TokenPair(names.name("access"), names.name("refresh"), self.clock.now(), ACCESS_TOKEN_SECONDS)
        operator.grants.store(actors.CONNECTION, pair)
        save_client_secret(database, operator.box, actors.CONNECTION, CLIENT_SECRET)
        self._tables = read_tables(self.server.own, self.datasets)
        self.model.observe(self._tables)

    def register_accounts(self) -> None:
        """Store the accounts as the upstream has them."""
        present = self.upstream.account
        numbers = self.upstream.accounts
        listed = [replace(present, id=number, seller_id=f"S{number}", key=f"de-{number}") for number in numbers]
        save_accounts(self.processes[_OPERATOR].database, actors.CONNECTION, [(each.key, each) for each in listed])

    def _step(self) -> bool:
        """Let one actor go on, judge, and return whether one was left."""
        if self.server.is_down and self.clock.monotonic() >= self._down_until:
            self.server.is_down = False
        actor = self.scheduler.run_event()
        self._judge()
        if actor is not None and self._deadly in actor.point:
            self._deadly = None
            self.log.add(self.clock.monotonic(), actor.process, "killed", "")
            self._kill(actor.process)
        if len(self.log) > _MOST_EVENTS:
            raise Violation(f"the run does not end within {_MOST_EVENTS} events")
        return actor is not None

    def _judge(self) -> None:
        if self.server.changed:
            self._tables = read_tables(self.server.own, self.datasets)
            self.met.update(named_in(self._tables.receipts))
        if self.server.committed:
            self.model.observe(self._tables)
        if self.server.changed and self.has_marts and not self.server.is_down:
            judge_marts(self, self.processes[_OPERATOR].database)
        self.server.committed = self.server.changed = False
        self.model.judge_requests()

    def judge_sums(self, name: str) -> None:
        """Check that the sums and counts which the service keeps of a dataset are those of its rows."""
        if (sums := kept_sums(self.server.own, name)) is not None:
            self.model.judge_reader(f"kept sums of {name}", *sums)

    def _happen(self, item: Item) -> None:
        self.log.add(self.clock.monotonic(), "plan", item.kind, f"{item.number} {item.process}")
        random = Random(item.chance)
        if item.kind == "answer":
            self.faults.arm(random)
        elif item.kind == "churn":
            self.faults.arm_churn(random)
        elif item.kind == "kill":
            if random.random() < 0.4:
                self._kill(item.process)
            else:
                points = [each for each in _DEADLY if each.startswith(_POINTS.get(self.plan.focus, ""))]
                self._deadly = random.choice(points)
        elif item.kind == "outage":
            wrong: Sequence[str] = ("empty", "empty", "zero", "no total", "contradiction")
            seconds = (30.0, 300.0, 4 * 86_400.0)
            if self.plan.focus == "contents":  # lists are read again after hours
                wrong, seconds = tuple(LIES), (300.0, 2 * 86_400.0, 4 * 86_400.0)
            self.faults.outage, self.faults.lied_days = random.choice(wrong), random.choice(_LIED_DAYS)
            self.faults.flickers = self.plan.focus == "contents" and random.random() < 0.3
            self.faults.outage_until = self.clock.monotonic() + random.choice(seconds)
        elif item.kind == "restart":
            self.server.is_down = self._was_killed = True
            self._down_until = self.clock.monotonic() + _DOWN_SECONDS
            self.server.sever(lambda _: True)
        elif item.kind == "garble":
            self.met.add(f"fault {item.kind}")
            self._was_killed = True
            self.server.garble(GARBLING)
        elif item.kind in actors.AT_ONCE:
            actors.ACTIONS[item.kind](self, self.processes[item.process], random)
        else:
            twin = item.twin if item.kind != "daily" else None
            for name in sorted({item.process, twin or item.process}):
                act = partial(self._act, item.kind, self.processes[name], Random(item.chance))
                self.scheduler.start(name, f"{name}/{item.number}", act)

    def _act(self, kind: str, process: Process, random: Random) -> None:
        try:
            actors.ACTIONS[kind](self, process, random)
        except SellerPlatformError as error:
            self.endure(error)

    def endure(self, error: SellerPlatformError) -> None:
        """Log an error that ends an action."""
        self.say(f"ended with {type(error).__name__}")
        if isinstance(error, SecretKeyError):
            raise Violation(str(error))

    def _kill(self, name: str) -> None:
        if not any(self.scheduler.of_process(name)):
            return
        self._was_killed = True
        self.server.sever(lambda connection: connection.process == name)
        self.scheduler.kill(name)
        self.processes[name].start()

    def _settle(self) -> None:
        """Load everything while nothing fails, and compare it with the upstream."""
        process = self.processes[_OPERATOR]
        process.start()  # it knows no former keys
        try:
            pair, names = process.keeper.token(), self.upstream.tokens
            # A newer pair may have been lost on its way; then the grant is refused as soon as it is refreshed.
            if names.is_revoked or pair.access_token != names.name("access"):
                process.keeper.rotate(pair.access_token)
        except ReauthorizationRequiredError:
            self.model.judge_refusal(self.upstream.tokens.family)
            actors.connect(self, process)
        self._settle_reports(process)
        now = self.clock.now().astimezone(self.upstream.zone)
        noon = datetime.combine(now.date() + timedelta(days=2), time(12), self.upstream.zone)
        self.clock.advance((noon - now).total_seconds())
        self.upstream.add_today()
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
            self.model.holds.accepted_by_operator = True
            actors.accept(self, process, Random(held.id))
        for result in results:
            if result.error is not None and not isinstance(result.error, ReadingHeldError):
                raise Violation(f"{result.request}: {result.error}")
        self.model.judge_holds([each.id for each in open_holds(process.database)])
        loaded = {(each.request.dataset.name, each.request.month and each.request.month.start) for each in results}
        kept = {(name, each.month) for (name, _), of in refusals(process.database).items() for each in of}
        if loaded & kept:
            raise Violation(f"{loaded & kept} were loaded, and are still refused")
        self._settle_registry(process)
        self.model.judge_quiet()
        self.model.judge_reader("slices", *kept_slices(self.server.own))
        self.model.judge_problems(named_problems(self.server.own))
        for dataset in self.datasets:
            self.judge_sums(dataset.name)
        for _ in range(2):
            actors.read(self, process, Random(self._runs))
        actors.prune_receipts(self, process, Random(self._runs))

    def _settle_registry(self, process: Process) -> None:
        """Compare the stored grant, secret and accounts with those of the upstream."""
        names, (pair, _) = self.upstream.tokens, process.grants.current(actors.CONNECTION)
        number, stored = pair.generation, (pair.access_token, pair.refresh_token)
        # A newer pair whose answer was lost is not missed while the access token is accepted.
        if stored != (names.name("access", number), names.name("refresh", number)) or number < max(names.received):
            raise Violation(f"at quiet the grant {pair.generation} is stored, and {max(names.received)} was received")
        if client_secret_of(process.database, process.box, actors.CONNECTION) != CLIENT_SECRET:
            raise Violation("at quiet the client secret is another one")
        if not any(item.kind in {"accounts", "discover"} for item in self.plan.kept):
            return
        actors.discover_all(self, process)
        listed = sorted(each.account.id for each in accounts(process.database))  # keys begin with the country
        if listed != sorted(self.upstream.accounts):
            raise Violation(f"at quiet the accounts {listed} are listed, not {self.upstream.accounts}")

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
