"""What actors do: load, plan, accept, revert, prune, poll reports, rotate tokens and keys, find accounts, and read."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, cast

import psycopg

from seller_platform.contract import Window
from seller_platform.contract.tokens import TokenPair
from seller_platform.contract.wire import ACCESS_TOKEN_SECONDS
from seller_platform.errors import (
    NotHeldError,
    ReadingHeldError,
    ReauthorizationRequiredError,
    RequestError,
    SellerPlatformError,
)
from seller_platform.ingest.connections.key_rotation import rotate_key_file
from seller_platform.ingest.loads.acceptance import accept_load
from seller_platform.ingest.loads.accounts import discover
from seller_platform.ingest.loads.loading import SliceLoader, SliceResult, load_each
from seller_platform.ingest.loads.planner import Planner, postpone
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.orchestration.automation.runs import plan_loads
from seller_platform.orchestration.jobs.today import today_slices
from seller_platform.orchestration.partitions import read_partition_key
from seller_platform.reports.jobs import ready_jobs
from seller_platform.reports.loading import ReportOrder, load_report, poll_due, request_report, take_failures
from seller_platform.reports.selectors import FORMATS
from seller_platform.warehouse.connections.accounts import account_of, connections
from seller_platform.warehouse.loads.receipts import Receipt, open_holds
from seller_platform.warehouse.loads.retention import prune
from seller_platform.warehouse.loads.slices import revert
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform_tests.simulation.facts import check
from seller_platform_tests.simulation.marts import build_due
from seller_platform_tests.simulation.plan import PROCESSES
from seller_platform_tests.simulation.planning import judge_division, judge_due
from seller_platform_tests.simulation.tables import counts_of, named_problems, rows_as_of, rows_of
from seller_platform_tests.simulation.threads import ActorFuture
from seller_platform_tests.simulation.walks import walk as walk_pages

if TYPE_CHECKING:
    from seller_platform_tests.simulation.world import Process, World

CONNECTION = "default"


def load(world: "World", process: "Process", random: Random) -> None:
    """Load one or two slices, in one or two threads."""
    requests = [_request(world, random) for _ in range(random.choice((1, 1, 2)))]
    load_all(world, process, requests, whole=random.random() < 0.5, at_once=random.choice((1, 2)))


def _request(world: "World", random: Random) -> SliceRequest:
    dataset = random.choice(world.datasets)
    if not dataset.is_dated:
        return SliceRequest(dataset, world.account.key, None)
    month = random.choice((world.months[0], world.months[-1], world.months[-1]))
    if random.random() < 0.3:  # as a schedule that reads the newest days alone
        newest = world.upstream.today - timedelta(days=random.choice((0, 0, 1, 3)))
        month = month.since(max(newest, month.start)) if newest < month.end else month
    return SliceRequest(dataset, world.account.key, month)


def load_all(
    world: "World", process: "Process", requests: Iterable[SliceRequest], *, whole: bool, at_once: int = 1
) -> list[SliceResult]:
    """Load slices as a run of Dagster does, and return the results."""
    run_id = world.next_run(process)
    loader = SliceLoader(process.database, lambda _: process.api, world.clock.now(), run_id, adaptive=False)
    requests = [replace(each, whole=whole) for each in requests]
    return _ended(world, process, load_each(requests, loader, at_once=at_once), run_id)


def _ended(world: "World", process: "Process", loads: Iterable[SliceResult], run_id: str) -> list[SliceResult]:
    """Judge the end of a run, and return its results."""
    results = list(loads)
    for result in results:
        world.say(f"{result.request}: {_end_of(result)}")
        tell(world, result.error)
    world.model.judge_end(run_id)
    if any(isinstance(result.error, ReadingHeldError) for result in results):
        world.model.judge_holds([each.id for each in open_holds(process.database)])
        world.model.judge_problems(named_problems(world.server.own))
    return results


def _end_of(result: SliceResult) -> str:
    if result.error is not None:
        return type(result.error).__name__
    return "nothing" if result.receipt is None else f"{result.receipt.rows} rows, {result.receipt.verdict}"


def tell(world: "World", error: SellerPlatformError | None) -> None:
    """Remember that a held reading was reported."""
    if isinstance(error, ReadingHeldError):
        world.model.tell(error.load_id)
    if error is not None:
        world.endure(error)


def refresh(world: "World", process: "Process", random: Random) -> None:
    """Load what a schedule finds due."""
    refresh_due(world, process)


def refresh_due(world: "World", process: "Process") -> list[SliceResult]:
    """Load what a schedule finds due, and return the results."""
    account, now, since = account_of(process.database, world.account.key), world.clock.now(), world.months[0].start
    per_day = None if process.api.meter is None else world.per_day
    planner = Planner(process.database, [account], since, now, adaptive=False, requests_per_day=per_day)
    room = None if per_day is None else per_day - world.upstream.requests[now.date()]
    before = [world.model.days_of(dataset, since, now) for dataset in world.datasets]
    due = planner.due(world.datasets, scheduled=True)
    for dataset, days in zip(world.datasets, before, strict=True):
        judge_due(dataset, due, days, world.model.days_of(dataset, since, now))
    division = planner.divide(due)
    judge_division(due, division, room)
    postpone(process.database, division)
    results = []
    for run in plan_loads(division.fitting, listed=[account.key]):
        (_, first), (_, last) = read_partition_key(run.first or ""), read_partition_key(run.last or "")
        months = [None] if first is None or last is None else list(Window(first.start, last.end).months())
        requests = [
            SliceRequest(dataset, world.account.key, month)
            for dataset in world.datasets
            if dataset in run.datasets
            for month in months
        ]
        results += load_all(world, process, requests, whole=run.whole)
    return results


def change(world: "World", process: "Process", random: Random) -> None:
    """Let the upstream change a list."""
    world.say(world.upstream.change(random))


def change_accounts(world: "World", process: "Process", random: Random) -> None:
    """Let the upstream list other accounts."""
    world.say(world.upstream.change_accounts(random))


def move(world: "World", process: "Process", random: Random) -> None:
    """Give the account another time zone, and let the registry know at once."""
    world.say(world.upstream.move(random))
    world.register_accounts()


def revoke(world: "World", process: "Process", random: Random) -> None:
    """Let the user withdraw the access."""
    world.upstream.revoke()


def discover_accounts(world: "World", process: "Process", random: Random) -> None:
    """Discover the accounts."""
    discover_all(world, process)


def discover_all(world: "World", process: "Process") -> None:
    """Discover the accounts, and have an operator accept a list that is held."""
    run_id = world.next_run(process)
    (connection,) = connections(process.database)
    try:
        found, _ = discover(
            lambda _: process.api, process.database, connection, run_id=run_id, second_reading_seconds=60
        )
        world.is_discovered = True
        world.say(f"accounts {[each.account.id for each in found]}")
    except ReadingHeldError as error:
        tell(world, error)
        accept_held(world, process, error.load_id)
    world.model.judge_end(run_id)


def change_keys(world: "World", process: "Process", random: Random) -> None:
    """Replace the secret key, unless another process does so at this moment."""
    if world.changing_keys in world.scheduler.actors:
        return
    world.changing_keys = world.scheduler.current
    world.say(f"{rotate_key_file(process.database, world.home).grants} grants have the new key")


def prune_receipts(world: "World", process: "Process", random: Random) -> None:
    """Delete old receipts."""
    before = world.upstream.today + timedelta(days=random.choice((-3, 0, 2)))
    world.model.is_pruned = True
    pruned = prune(
        process.database, snapshots_before=date.min, receipts_before=before, unchanged_before=before, dry=False
    )
    world.say(f"{pruned.receipts} receipts are pruned")


def read(world: "World", process: "Process", random: Random) -> None:
    """Read rows of today and of a former moment, and the counts of days, in one transaction."""
    name = random.choice(world.datasets).name
    with process.database.begin() as connection:
        driver = driver_of(connection)
        driver.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        rows = rows_of(driver, name)
        read_former(world, driver, random)
        counts = counts_of(driver, name)
    world.judge_sums(name)
    if counts is not None:
        days = Counter(day for day, _ in rows.elements())
        world.model.judge_reader(f"counts of {name}", counts, days)


def read_former(world: "World", connection: psycopg.Connection[Any], random: Random) -> None:
    """Read the rows of a dataset as of a former moment."""
    former = world.model.former_rows(random)
    if former is not None:
        name, moment, rows = former
        world.model.judge_reader(f"{name} as of {moment}", rows_as_of(connection, name, moment), rows)


def advance(world: "World", process: "Process", random: Random) -> None:
    """Let time pass."""
    hours = random.choice((0.1, 1, 7, 21, 24, 26, 48, 8 * 24, 16 * 24))
    world.clock.advance(hours * 3600)
    world.say(f"{hours:g} hours pass")


def daily(world: "World", process: "Process", random: Random) -> None:
    """Load what is due on several days."""
    for _ in range(3):
        refresh_due(world, process)
        world.scheduler.sleep(random.choice((19.0, 21.0, 25.0)) * 3600)
    refresh_due(world, process)


def reread(world: "World", process: "Process", random: Random) -> None:
    """Read all months whole, once or on several days."""
    for _ in range(random.choice((1, 1, 4, 6))):
        requests = [
            SliceRequest(dataset, world.account.key, month if dataset.is_dated else None)
            for dataset in world.datasets
            for month in (world.months if dataset.is_dated else world.months[:1])
        ]
        load_all(world, process, requests, whole=True)
        world.scheduler.sleep(random.choice((1, 19, 21, 25)) * 3600)


def token(world: "World", process: "Process", random: Random) -> None:
    """Take the token, which is rotated if it is due."""
    if random.random() < 0.7:
        world.clock.advance(8 * 24 * 3600)
    family = 0 if world.connecting in world.scheduler.actors else world.upstream.tokens.family
    try:
        process.keeper.token() if random.random() < 0.7 else process.keeper.rotate(process.keeper.token().access_token)
    except ReauthorizationRequiredError:
        world.model.judge_refusal(family)
        connect(world, process)
    except SellerPlatformError as error:
        world.endure(error)


def connect(world: "World", process: "Process") -> None:
    """Authorise the connection again, unless another user does so at this moment."""
    if world.connecting in world.scheduler.actors:
        return
    world.connecting = world.scheduler.current
    world.upstream.authorize()
    names = world.upstream.tokens
    pair = TokenPair(names.name("access"), names.name("refresh"), world.clock.now(), ACCESS_TOKEN_SECONDS)

    def keep() -> None:
        names.is_kept = True

    process.keeper.adopt(pair, register=keep)
    world.connecting = None
    world.say("connected again")


def report(world: "World", process: "Process", random: Random) -> None:
    """Request a report."""
    account = account_of(process.database, world.account.key)
    day = world.upstream.today - timedelta(days=random.choice((1, 2)))
    form = random.choice(FORMATS)
    order = ReportOrder(value=str(day), form=form, give_up_after=timedelta(hours=random.choice((1, 6))))
    job = request_report(process.api, process.database, account, order, now=world.clock.now())
    world.say("open already" if job is None else f"report job {job.id} is {job.state.value}")


def poll(world: "World", process: "Process", random: Random) -> None:
    """Poll the reports that are due, and load those that are ready."""
    polled = poll_due(lambda _: process.api, process.database, clock=world.clock.now, seconds=20, limit=10)
    loaded = load_reports(world, process)
    world.say(f"{polled} polls, {loaded} loaded")


def load_reports(world: "World", process: "Process") -> int:
    """Load the reports that are ready, and return their number."""
    account, loaded = account_of(process.database, world.account.key), 0
    for job in ready_jobs(process.database, account.key):
        try:
            run_id = world.next_run(process)
            receipt = load_report(process.api, process.database, account, job, clock=world.clock.now, run_id=run_id)
            loaded += receipt is not None
        except SellerPlatformError as error:
            world.say(f"job {job.id}: {type(error).__name__}")
    for failure in take_failures(process.database, account.key, now=world.clock.now()):
        world.failures.append(failure.subject)
    return loaded


def accept(world: "World", process: "Process", random: Random) -> None:
    """Accept a reading that is held, and none that is published."""
    for published in world.model.revertible_loads()[:1]:
        refused = _refusal(partial(_accepted, world, process, published))
        check(f"load {published} is published, and accepting it gave {refused}", isinstance(refused, NotHeldError))
    holds = open_holds(process.database)
    world.model.judge_holds([each.id for each in holds])
    if holds:
        accept_held(world, process, random.choice(holds).id)


def _refusal(action: Callable[[], object]) -> RequestError | None:
    try:
        action()
    except RequestError as error:
        return error
    return None


def _accepted(world: "World", process: "Process", load_id: int) -> Receipt:
    now, run_id = world.clock.now(), world.next_run(process)
    return accept_load(SliceLoader(process.database, lambda _: process.api, now, run_id, adaptive=False), load_id)


def accept_held(world: "World", process: "Process", load_id: int) -> None:
    """Accept the reading of a load."""
    world.model.holds.accepted_by_operator = True
    try:
        receipt = _accepted(world, process, load_id)
        world.say(f"accepted {load_id}: {receipt.verdict}")
        world.model.judge_accepted(load_id, receipt.id)
    except NotHeldError:
        world.say(f"{load_id} is not held any more")
    except ReadingHeldError as error:
        tell(world, error)
        world.say(f"{load_id} is held again")


def walk(world: "World", process: "Process", random: Random) -> None:
    """Read lists page by page, of an account that was discovered."""
    if not world.is_discovered:
        discover_all(world, process)
    for _ in range(3):
        walk_pages(world, process, random)
        world.scheduler.sleep(0.5)


def build(world: "World", process: "Process", random: Random) -> None:
    """Build the marts that are due."""
    world.say(f"{build_due(world, process.database)} marts are built")


def intraday(world: "World", process: "Process", random: Random) -> None:
    """Read today's rows again and again, as the schedule of today's orders does."""
    for _ in range(random.choice((1, 2, 3))):
        account = account_of(process.database, world.account.key)
        dated = [dataset for dataset in world.datasets if dataset.is_dated]
        slices = today_slices([account], world.clock.now())
        requests = [replace(each.request, dataset=of) for each in slices for of in dated]
        load_all(world, process, requests, whole=True)
        world.scheduler.sleep(random.choice((900, 3 * 3600, 21 * 3600)))


def update(world: "World", process: "Process", random: Random) -> None:
    """Load the newest month again and again, while the upstream changes."""
    for _ in range(4):
        world.say(world.upstream.change(random))
        month = world.months[-1]
        dataset = random.choice(world.datasets)
        request = SliceRequest(dataset, world.account.key, month if dataset.is_dated else None)
        load_all(world, process, [request], whole=True)


def sync(world: "World", process: "Process", random: Random) -> None:
    """Load slices in other processes, as loading processes do: what one that is killed had is loaded again."""
    now, run_id = world.clock.now(), world.next_run(process)
    loader = SliceLoader(process.database, lambda _: process.api, now, run_id, adaptive=False)
    requests = [SliceRequest(each, world.account.key, world.months[-1]) for each in world.datasets if each.is_dated]
    others = [world.processes[name] for name in PROCESSES if name != process.name]
    results = load_each(requests, loader, elsewhere=_Others(world, others, random).load, at_once=2)
    _ended(world, process, results, run_id)


@dataclass(frozen=True)
class _Others:
    """The other processes, as loading processes of one."""

    world: "World"
    processes: Sequence["Process"]
    random: Random

    def load(self, request: SliceRequest, loader: SliceLoader) -> Receipt | None:
        """Load a slice in one of them, and by the loader if that is killed."""
        other = self.random.choice(self.processes)
        of_other = replace(loader, database=other.database, api=lambda _: other.api)
        future = ActorFuture(partial(of_other.load, request))
        actor = self.world.scheduler.start(other.name, f"{other.name} loads", future.run)
        self.world.scheduler.wait_until(lambda: actor.greenlet.dead, "loader")
        if future.is_done:
            return cast("Receipt | None", future.result())
        self.world.say(f"{request}: its loading process has died")
        return loader.load(request)


def undo(world: "World", process: "Process", random: Random) -> None:
    """Revert a load that changed rows of days which were loaded before; where there is none, load some.

    The first load of all is of days of which nothing was stored before, or of accounts: it is not reverted.
    """
    if (first := world.model.first_load()) is not None:
        check(f"load {first} is reverted", _refusal(partial(revert, process.database, first)) is not None)
    if not world.model.revertible_loads():
        update(world, process, random)
    if not (loads := world.model.revertible_loads()):
        return
    chosen = random.choice(loads)
    try:
        world.say(f"reverted {chosen}: {revert(process.database, chosen).rows} rows")
    except RequestError as error:
        world.say(type(error).__name__)


_SAME_NAME = (
    *(load, refresh, change, advance, token, report, poll, accept, daily, move, read, revoke, build, intraday, reread),
    *(sync, update, walk),
)
ACTIONS: dict[str, Callable[["World", "Process", Random], None]] = {
    **{action.__name__: action for action in _SAME_NAME},
    **{"revert": undo, "accounts": change_accounts, "discover": discover_accounts},
    **{"keys": change_keys, "prune": prune_receipts},
}

AT_ONCE = ("change", "advance", "accounts", "move", "revoke")
"""What happens in the upstream, or to the time. No process does it."""

WHILE_IDLE = ("move",)
"""What waits until no process does anything: a load that asks for days of one zone gets no days of another."""
