"""Discovery in Dagster: the asset of the accounts, the check of the grants, and the sensor that keeps both up to date.

The sensor asks every connection each hour, stores what it lists, and adds partitions. It asks within the tick: an hour
in which nothing changed costs two requests and no run. Nothing is ever removed: an account that is gone is retired in
the registry, and its rows, its partitions and their history stay.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta

import dagster as dg

from seller_platform.clocks import Clock, is_past, utc_now
from seller_platform.contract import Dataset
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.errors import SellerPlatformError, UpstreamUnavailableError
from seller_platform.ingest.loads.accounts import discover
from seller_platform.orchestration.assets.authorization import (
    AUTHORIZED_CHECK,
    AUTHORIZED_DOC,
    Denial,
    authorized_evaluation,
    denials_of,
    judge_connections,
)
from seller_platform.orchestration.assets.checks import check_outputs, check_specs, evaluations_of_connections
from seller_platform.orchestration.assets.events import definition_metadata, materialization
from seller_platform.orchestration.assets.partition_loop import PartitionLoop
from seller_platform.orchestration.partitions import ACCOUNT_PARTITIONS, add_accounts, asset_key
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.warehouse.connections.accounts import KnownAccount, KnownConnection, accounts, connections
from seller_platform.warehouse.loads.receipts import newest_receipts
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database

_ASK_EVERY = timedelta(hours=1)
_ASK_AGAIN_AFTER_FAILURE = timedelta(minutes=5)
_SECONDS_BETWEEN_TICKS = 60
# Dagster ends an evaluation after 60 s.
_TICK_SECONDS = 40.0
_REQUEST_SECONDS = 10.0
_CONNECTIONS_AT_ONCE = 4


def discovery_definitions(*, clock: Clock = utc_now, tick_seconds: float = _TICK_SECONDS) -> dg.Definitions:
    """Return everything Dagster needs for discovery, except the resources `warehouse` and `seller_api`."""
    return dg.Definitions(
        assets=[accounts_asset(ACCOUNTS)],
        sensors=[_discovery_sensor(ACCOUNTS, clock, tick_seconds)],
    )


def accounts_asset(dataset: Dataset) -> dg.AssetsDefinition:
    """Return the asset that discovers the accounts of every connection and adds their partitions."""
    authorized = dg.AssetCheckSpec(AUTHORIZED_CHECK, asset=asset_key(dataset), description=AUTHORIZED_DOC)

    @dg.asset(
        key=asset_key(dataset),
        description=dataset.doc,
        group_name=dataset.area,
        kinds={"postgres"},
        metadata=definition_metadata(dataset),
        check_specs=[*check_specs(dataset, None), authorized],
        output_required=False,
    )
    def land(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> Iterator[object]:
        by_name = {connection.name: connection for connection in connections(warehouse.database)}

        def read(name: str) -> tuple[Sequence[KnownAccount], Receipt]:
            return discover(seller_api.api(name), warehouse.database, by_name[name], run_id=context.run.run_id)

        loop = PartitionLoop(context.log, "connection ")
        loaded: list[tuple[KnownConnection, Receipt]] = []
        for name, (known, receipt) in loop.attempt(by_name, read):
            add_accounts(context.instance, [account.key for account in known])
            loaded.append((by_name[name], receipt))
        yield from _events(context.instance, warehouse.database, dataset, loaded)
        yield from check_outputs(context, dataset)
        judgement = judge_connections(warehouse, denials_of(loop.failures, utc_now()), utc_now())
        yield authorized_evaluation(context.instance, dataset, judgement)
        yield dg.Output(None, output_name=f"{context.op_def.name}_{AUTHORIZED_CHECK}")
        names = ", ".join(loop.failures)
        loop.fail(f"{len(loop.failures)} connections were not asked for their accounts: {names}. All others were")

    return land


@dataclass(frozen=True)
class _Memory:
    """What the sensor remembers from tick to tick.

    Attributes:
        due: When each connection is asked next, as ISO timestamps.
        told: What the check said last.
    """

    due: Mapping[str, str] = field(default_factory=dict)
    denials: Mapping[str, Denial] = field(default_factory=dict)
    told: str = ""

    @classmethod
    def read(cls, cursor: str | None) -> "_Memory":
        kept = json.loads(cursor or "{}")
        denials = {name: Denial(**denial) for name, denial in kept.pop("denials", {}).items()}
        return cls(denials=denials, **kept)

    def is_due(self, connection: str, now: datetime) -> bool:
        """Whether to ask a connection."""
        due = self.due.get(connection)
        return due is None or is_past(datetime.fromisoformat(due), now, _ASK_EVERY)


@dataclass(frozen=True)
class _Answers:
    """What came of asking some connections; those that there was no time for are in neither."""

    receipts: Mapping[str, Receipt]
    failures: Mapping[str, SellerPlatformError]


def _discovery_sensor(dataset: Dataset, clock: Clock, tick_seconds: float) -> dg.SensorDefinition:
    @dg.sensor(
        name="discover_accounts",
        description="Asks every connection for its accounts each hour, adds the partitions of new ones, retires those "
        "that are gone, and says which connections must be authorised again.",
        target=dg.AssetSelection.assets(asset_key(dataset)),
        minimum_interval_seconds=_SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def discover_accounts(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> dg.SensorResult:
        now, memory = clock(), _Memory.read(context.cursor)
        known = {each.name: each for each in connections(warehouse.database)}
        due = sorted((name for name in known if memory.is_due(name, now)), key=lambda name: memory.due.get(name, ""))
        answers = _ask([known[name] for name in due], seller_api, warehouse.database.url, tick_seconds)
        for name, error in answers.failures.items():
            context.log.warning("connection %s: %s", name, error)
        loaded = [(known[name], receipt) for name, receipt in answers.receipts.items()]
        _store(context.instance, _events(context.instance, warehouse.database, dataset, loaded))
        memory = _remember(memory, known, answers, now)
        judgement = judge_connections(warehouse, memory.denials, now)
        if answers.receipts or answers.failures or judgement.description != memory.told:
            _store(context.instance, [authorized_evaluation(context.instance, dataset, judgement)])
        fresh = _without_partition(context.instance, warehouse.database)
        return dg.SensorResult(
            skip_reason=f"{len(answers.receipts)} of {len(known)} connections were asked, {len(answers.failures)} gave "
            f"no answer; {len(fresh)} accounts are new",
            dynamic_partitions_requests=[ACCOUNT_PARTITIONS.build_add_request(fresh)] if fresh else [],
            cursor=json.dumps({**asdict(memory), "told": judgement.description}),
        )

    return discover_accounts


def _ask(wanted: Sequence[KnownConnection], seller_api: SellerApiResource, url: str, seconds: float) -> _Answers:
    """Ask connections for their accounts, side by side, for as long as there is time; one that hangs stops no other.

    Each is asked with a database and an API of its own. One that hangs goes on after the tick has ended, and what it
    brings in the end is stored.
    """

    def ask(connection: KnownConnection) -> Receipt:
        with Database(url) as database, seller_api.open_api(connection.name, database) as api:
            return discover(api.impatient(_REQUEST_SECONDS), database, connection, run_id=None)[1]

    threads = ThreadPoolExecutor(_CONNECTIONS_AT_ONCE, thread_name_prefix="discover")
    asked = {each.name: threads.submit(ask, each) for each in wanted}
    wait(asked.values(), timeout=seconds)
    threads.shutdown(wait=False, cancel_futures=True)
    receipts: dict[str, Receipt] = {}
    failures: dict[str, SellerPlatformError] = {}
    for name, future in asked.items():
        if future.cancelled():
            continue
        try:
            receipts[name] = _result(future, seconds)
        except SellerPlatformError as error:
            failures[name] = error
    return _Answers(receipts, failures)


def _result(future: Future[Receipt], seconds: float) -> Receipt:
    """Return the result of what is done; what is not has taken too long.

    Raises:
        SellerPlatformError: It failed, or is not done.
    """
    if not future.done():
        raise UpstreamUnavailableError(f"GET {ACCOUNTS.path}", f"no answer within {seconds:g} seconds", attempts=1)
    return future.result()


def _remember(memory: _Memory, known: Iterable[str], answers: _Answers, now: datetime) -> _Memory:
    """Return what is to be remembered of the connections that there are now."""
    due = {
        **memory.due,
        **dict.fromkeys(answers.receipts, (now + _ASK_EVERY).isoformat()),
        **dict.fromkeys(answers.failures, (now + _ASK_AGAIN_AFTER_FAILURE).isoformat()),
    }
    earlier = {name: denial for name, denial in memory.denials.items() if name not in answers.receipts}
    denials = {**earlier, **denials_of(answers.failures, now)}
    return _Memory(
        due={name: at for name, at in due.items() if name in known},
        denials={name: denial for name, denial in denials.items() if name in known},
        told=memory.told,
    )


def _without_partition(instance: dg.DagsterInstance, database: Database) -> list[str]:
    """Return the accounts that are listed and have no partition yet, whoever discovered them."""
    assert ACCOUNT_PARTITIONS.name is not None
    registered = set(instance.get_dynamic_partitions(ACCOUNT_PARTITIONS.name))
    return [known.key for known in accounts(database) if known.key not in registered]


def _events(
    instance: dg.DagsterInstance,
    database: Database,
    dataset: Dataset,
    loaded: Sequence[tuple[KnownConnection, Receipt]],
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """Yield a materialization for each connection that was asked, and what the checks say of all together."""
    if not loaded:
        return
    names = {each.name for each in connections(database)}
    receipts = {name: receipt for name, receipt in newest_receipts(database, dataset).items() if name in names}
    for connection, receipt in loaded:
        event = materialization(
            dataset,
            receipt,
            partition=None,
            endpoint_url=f"{connection.base_url}{dataset.path}",
            table_uri=database.uri_of(dataset.table),
        )
        yield event.with_metadata(
            {
                **event.metadata,
                "connection": connection.name,
                "dagster/row_count": sum(each.rows for each in receipts.values()),
            }
        )
    yield from evaluations_of_connections(instance, dataset, receipts)


def _store(instance: dg.DagsterInstance, events: Iterable[dg.AssetMaterialization | dg.AssetCheckEvaluation]) -> None:
    """Store events one by one, for an evaluation points at the materialization before it."""
    for event in events:
        instance.report_runless_asset_event(event)
