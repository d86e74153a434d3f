"""Asset specs for other code locations, the IO manager that reads their partitions, and when these have settled.

This module needs only the warehouse, neither the API nor our definitions.
"""

from collections.abc import Sequence
from datetime import date
from typing import Any, Literal, TypeAlias

import dagster as dg
import msgspec
from pydantic import SecretStr

from seller_platform.contract import DATASETS, Dataset
from seller_platform.errors import CheckFailedError, RequestError
from seller_platform.orchestration.partitions import (
    ACCOUNT_PARTITIONS,
    account_months,
    asset_key,
    partition_key,
    partitions_for,
    read_partition_key,
)
from seller_platform.settings import Settings, read_settings
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.loads.history_start import history_start_of
from seller_platform.warehouse.monitoring.settled_partitions import open_errors, settled_partitions
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url
from seller_platform.warehouse.readers.relations import Selection, relation_of, source_named

IO_MANAGER_KEY = "seller_warehouse"
FORM = "seller_platform/form"
ARROW, PANDAS = "arrow", "pandas"

_Context: TypeAlias = dg.AutomationContext[dg.AssetKey]
_Result: TypeAlias = dg.AutomationResult[dg.AssetKey]


class WarehouseIOManager(dg.ConfigurableIOManager):
    """Loads stored partitions of our assets as inputs of other assets; it writes nothing.

    An input annotated `pyarrow.Table`, or with the metadata `{"seller_platform/form": "arrow"}`, is an Arrow table,
    any other a pandas DataFrame, with the columns and types of `warehouse.readers.arrow.schema_of` and
    `warehouse.readers.arrow.read_frames`. One read returns the rows of every partition that the partition mapping
    names, of snapshots the newest. An asset that is declared without partitions is loaded whole.

    Attributes:
        database_url: A `postgresql://` URL of a user who may read; by default that of the settings.
        on_problem: What an error in one of the partitions does, such as a reading that is held: "warn" logs it,
            "raise" fails the step. What a person has acknowledged is no problem.
    """

    database_url: str | None = None
    on_problem: Literal["raise", "warn"] = "warn"

    def load_input(self, context: dg.InputContext) -> Any:
        """Return the rows of the partitions that the input is mapped to.

        Raises:
            CheckFailedError: Something is wrong with one of the partitions, and `on_problem` is "raise".
            InexactNumberError: A number has more digits than Arrow's type for it.
            NotLoadedError: One of the partitions was never loaded; the message names its account and month.
            RequestError: The input is not one of our assets.
        """
        # A component may have put a prefix before the table.
        source = source_named("/".join(context.asset_key.path[-2:]))
        relation = relation_of(source)
        form = (context.definition_metadata or {}).get(FORM)
        if form is None:
            annotation = context.dagster_type.typing_type
            is_arrow = (
                getattr(annotation, "__name__", "") == "Table" and annotation.__module__.split(".")[0] == "pyarrow"
            )
            form = ARROW if is_arrow else PANDAS
        parts = None
        if context.has_asset_partitions:
            definition, keys = context.asset_partitions_def, context.asset_partition_keys
            if isinstance(definition, dg.MultiPartitionsDefinition):
                keys = [definition.get_partition_key_from_str(key) for key in keys]
            parts = [read_partition_key(key) for key in keys]
        selections = None if parts is None else [Selection(*part) for part in parts]
        with _database(self.database_url) as database:
            for problem in open_errors(database, source, parts):
                if self.on_problem == "raise":
                    raise CheckFailedError(problem.sentence)
                context.log.warning(problem.sentence)
            # Its import takes a while.
            from seller_platform.warehouse.readers.arrow import read_arrow, read_frames

            return (read_arrow if form == ARROW else read_frames)(database, relation, selections)

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:  # noqa: ARG002  # Dagster's signature
        """Refuse to write, by a `RequestError`."""
        asset = context.asset_key.to_user_string() if context.has_asset_key else context.name
        raise RequestError(
            f"{asset} cannot be written: the warehouse is only read from here",
            code="ReadOnlyAssetError",
            step="Give the asset an `io_manager_key` other than that of the Seller Platform assets it reads.",
        )


class _IsOther(dg.AutomationCondition[dg.AssetKey]):
    """Whether an asset is not one of ours."""

    def evaluate(self, context: _Context) -> _Result:
        is_other = _source_of(context.key) is None
        return dg.AutomationResult(context, context.candidate_subset if is_other else context.get_empty_subset())


class _Settled(dg.AutomationCondition[dg.AssetKey]):
    """Whether partitions of one of our assets have settled; other assets always have.

    With `once`, it is true once for the rows of a partition, and always of other assets. The cursor has the version of
    these rows: Dagster hears of a load some seconds later, and a failure that has passed changes no row.
    """

    def __init__(self, database_url: str | None, *, once: bool = False) -> None:
        self._database_url, self._once = database_url, once

    def evaluate(self, context: _Context) -> _Result:
        source, candidates = _source_of(context.key), context.candidate_subset
        if source is None or candidates.is_empty:
            return dg.AutomationResult(context, candidates, context.cursor)
        with _database(self._database_url) as database:
            settled = {str(partition_key(*each)): of for each, of in settled_partitions(database, source).items()}
        before = msgspec.json.decode(context.cursor or "{}", type=dict[str, str]) if self._once else {}
        anew = settled.keys() - {key for key, version in before.items() if settled.get(key) == version}
        if context.partitions_def is not None:
            anew &= candidates.expensively_compute_partition_keys()
            subset = candidates.compute_intersection_with_partition_keys(anew)
        else:
            subset = candidates if anew else context.get_empty_subset()
        after = {**before, **{key: settled[key] for key in anew}} if self._once else {}
        return dg.AutomationResult(context, subset, msgspec.json.encode(after).decode())


def _source_of(key: dg.AssetKey) -> Dataset | Mart | None:
    try:
        return source_named("/".join(key.path[-2:]))
    except RequestError:
        return None


def settled(database_url: str | None = None) -> dg.AutomationCondition[dg.AssetKey]:
    """Return the automation condition of an asset that is computed from settled partitions of ours.

    It is true once when every day of all partitions that the asset depends on has settled and nothing is wrong with
    them, and again when the rows of one change later. A day has settled when it was read after its last expected
    change, which the weekly schedule does. The first evaluation finds every partition that has settled by then. Assets
    of others that it depends on need not have settled: each of their changes makes it true.

    Dagster evaluates conditions of other packages in the code location: the project needs
    `dg.AutomationConditionSensorDefinition("settled", target="*", use_user_code_server=True)`.

    Args:
        database_url: The warehouse, by a user who may read; by default that of the settings.
    """
    all_settled: Any = dg.AutomationCondition.all_deps_match(_Settled(database_url))
    other_changed: Any = _IsOther() & dg.AutomationCondition.data_version_changed()
    ours_changed: Any = ~_IsOther() & _Settled(database_url, once=True)
    condition: dg.AutomationCondition[dg.AssetKey] = all_settled & dg.AutomationCondition.any_deps_match(
        ours_changed | other_changed
    )
    return condition


def seller_asset_specs(
    history_start: date | None = None,
    *,
    io_manager_key: str = IO_MANAGER_KEY,
    key_prefix: Sequence[str] = (),
    database_url: str | None = None,
    same_instance: bool = True,
) -> list[dg.AssetSpec]:
    """Return the specs of all datasets and marts, to be loaded by a `WarehouseIOManager`.

    In a workspace they are the same nodes as the assets themselves.

    Args:
        history_start: The first day of history; by default the one that is stored in the warehouse.
        io_manager_key: The resource key of the IO manager.
        key_prefix: The key prefix of the component that has the assets.
        database_url: The warehouse; by default that of the settings.
        same_instance: Whether the assets are in the same Dagster instance, which then has the accounts. Otherwise
            the accounts are read from the warehouse.
    """
    sources: Sequence[Dataset | Mart] = (*DATASETS, *MARTS)
    since = history_start or history_start_of(_settings(database_url))
    by_account = seller_account_partitions(database_url=database_url, same_instance=same_instance)
    return [
        dg.AssetSpec(
            asset_key(source).with_prefix(key_prefix),
            description=source.doc,
            group_name="lists" if isinstance(source, Dataset) else "marts",
            kinds={"postgres"},
            metadata={"dagster/table_name": source.table},
            partitions_def=partitions_for(source, since, by_account),
        ).with_io_manager_key(io_manager_key)
        for source in sources
    ]


def seller_account_partitions(
    *, database_url: str | None = None, same_instance: bool = True
) -> dg.PartitionsDefinition[str]:
    """Return the partitions by account.

    Args:
        database_url: The warehouse; by default that of the settings.
        same_instance: Whether the Dagster instance is that of the assets, which has the accounts. Otherwise the
            accounts are read from the warehouse; load the code location again to see new ones.
    """
    if same_instance:
        return ACCOUNT_PARTITIONS
    with _database(database_url) as database:
        return dg.StaticPartitionsDefinition([each.key for each in accounts(database, with_retired=True)])


def seller_month_partitions(
    *, database_url: str | None = None, same_instance: bool = True
) -> dg.MultiPartitionsDefinition:
    """Return the partitions by account and month, from the stored first day of history on.

    The arguments are those of `seller_account_partitions`.
    """
    by_account = seller_account_partitions(database_url=database_url, same_instance=same_instance)
    return account_months(history_start_of(_settings(database_url)), by_account)


def _database(url: str | None) -> Database:
    """Return the warehouse of a URL, or else that of the settings."""
    return Database(warehouse_url(_settings(url)), connections=1)


def _settings(database_url: str | None) -> Settings:
    settings = read_settings()
    return settings if database_url is None else settings.model_copy(update={"database_url": SecretStr(database_url)})
