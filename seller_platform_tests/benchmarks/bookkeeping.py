"""Measures the time that Dagster needs to store the events of a slice.

`python -m seller_platform_tests.benchmarks.bookkeeping` prints milliseconds a slice.

A run reports the same events as the platform's assets: one materialization a partition and an evaluation of each
check. The slices themselves are not loaded, so the time is that of Dagster and its storage. The platform's storage is
compared with the one of dagster-postgres.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
from rich.console import Console
from rich.table import Table

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform.orchestration.assets.checks import check_specs, evaluations
from seller_platform.orchestration.assets.events import NO_VALUE, materialization, outputs
from seller_platform.orchestration.partitions import account_months, add_accounts, asset_key, partition_key
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.benchmarks.free_service import FIRST_MONTH, months
from seller_platform_tests.support.folders import temporary_folder

_STORAGES = {
    "one pool (ours)": "storage:\n  custom:\n    module: seller_platform.orchestration.storage\n"
    '    class: PooledPostgresStorage\n    config: {{postgres_url: "{url}"}}\n',
    "dagster-postgres as it is": 'storage:\n  postgres:\n    postgres_url: "{url}"\n',
}
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def reporting_asset(dataset: Dataset, seconds: list[float]) -> dg.AssetsDefinition:
    """Return an asset that reports every partition as loaded and measures its seconds."""
    partitions = account_months(FIRST_MONTH)
    now = datetime.now(UTC)
    receipt = Receipt(
        id=1,
        dataset=dataset.name,
        account="S1.BENCH",
        window=Window.month_of(FIRST_MONTH),
        requests=11,
        pages=10,
        body_bytes=5_000_000,
        announced=20_000,
        rows=20_000,
        digest=bytes(24),
        verdict=CountVerdict.MATCH,
        changed=True,
        restatement=None,
        notes=None,
        run_id=None,
        started_at=now,
        finished_at=now,
    )

    @dg.asset(
        key=asset_key(dataset),
        partitions_def=partitions,
        dagster_type=NO_VALUE,
        check_specs=check_specs(dataset, partitions),
    )
    def report(context: dg.AssetExecutionContext) -> Iterator[object]:
        started, keys = time.perf_counter(), context.partition_keys
        for key in keys:
            yield materialization(
                dataset, receipt, partition=key, endpoint_url="http://api/x", database_uri="postgres://db/x"
            )
            yield from evaluations(context.instance, dataset, receipt, key)
        seconds.append((time.perf_counter() - started) / len(keys))
        yield from outputs(context)

    return report


def measure(folder: Path, url: str, storage: str, *, accounts: int, month_count: int, repeat: int) -> list[float]:
    """Return the seconds a slice, for each run."""
    folder.mkdir()
    (folder / "dagster.yaml").write_text(storage.format(url=url.replace("postgresql:", "postgresql+psycopg2:", 1)))
    seconds: list[float] = []
    keys = [f"S{number}.BENCH" for number in range(1, accounts + 1)]
    last = months(month_count)[-1]
    defs = dg.Definitions(assets=[reporting_asset(dataset_named("orders"), seconds)], executor=dg.in_process_executor)
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        add_accounts(instance, keys)
        for _ in range(repeat):
            defs.resolve_implicit_global_asset_job_def().execute_in_process(
                instance=instance,
                run_config=_QUIET,
                tags={
                    "dagster/asset_partition_range_start": partition_key(keys[0], Window.month_of(FIRST_MONTH)),
                    "dagster/asset_partition_range_end": partition_key(keys[-1], last),
                },
            )
    return seconds


def main() -> None:
    """Measure both storages and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accounts", type=int, default=2)
    parser.add_argument("--months", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=5, help="medians of so many runs")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    table = Table(title=f"{chosen.accounts * chosen.months} slices a run, {date.today()}", title_justify="left")  # noqa: DTZ011  # the reader's day
    for name in ("storage", "ms a slice"):
        table.add_column(name, justify="left" if name == "storage" else "right")
    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        try:
            for number, (name, storage) in enumerate(_STORAGES.items()):
                url = server.database(f"bookkeeping_{number}")
                seconds = measure(
                    folder / str(number),
                    url,
                    storage,
                    accounts=chosen.accounts,
                    month_count=chosen.months,
                    repeat=chosen.repeat,
                )
                table.add_row(name, f"{statistics.median(seconds) * 1000:.1f}")
        finally:
            server.close()
    Console().print(table)


if __name__ == "__main__":
    main()
