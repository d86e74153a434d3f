"""Measures the questions about receipts where there are hundreds of thousands.

Each account has three dated datasets with so many months, and a refresh each day that reads the lookback again, and an
inventory each day: 446,000 receipts. With `--days 0 --months 12` there are 36,000, one for each slice. The CPU is in
seconds.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import text

from seller_platform.contract import Account, dataset_named
from seller_platform.ingest.verification.queries import StoredDays
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.loads.receipts import AccountDay, days_due, open_holds, stored_windows
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform_tests.figures.measuring import spent, spent_by_command
from seller_platform_tests.figures.results import Samples
from seller_platform_tests.support.installation import temporary_server
from seller_platform_tests.support.processes import COMMAND, environment
from seller_platform_tests.support.slices_of_receipts import fill_slices
from seller_platform_tests.support.stored_rows import connect_accounts

DATED, STOCK = tuple(map(dataset_named, ("orders", "daily_product_sales", "transactions"))), dataset_named("inventory")
_LOADS = """
    INSERT INTO platform.loads (dataset, account, window_start, window_end, requests, pages, body_bytes, announced,
                                rows, digest, verdict, changed, sums, changed_days, started_at, finished_at)
    SELECT dataset, account, first, after, 3, 2, 9000, 40 * (after - first), 40 * (after - first), '0123456789abcdef',
           'match', changed, sums, changed_days, moment, moment + interval '2 seconds'
    FROM ({windows}) AS windows
    ORDER BY moment, dataset, account
"""
_PAIRS = """
    unnest(CAST(:datasets AS text[]), CAST(:amounts AS text[]), CAST(:lookbacks AS integer[]))
        AS datasets (dataset, amount, lookback)
    CROSS JOIN LATERAL (SELECT 'S' || number || '.DE' AS account FROM generate_series(1, :accounts) AS number) AS pairs
"""
_SUMS = "jsonb_build_object('rows', (40 * (after - first))::text, amount || ' EUR', (990.5 * (after - first))::text)"
_HISTORY = text(
    _LOADS.format(
        windows=f"""
    SELECT *, true AS changed, NULL::jsonb AS changed_days, {_SUMS} AS sums, begin AS moment
    FROM {_PAIRS}
    CROSS JOIN (SELECT CAST(:begin AS timestamptz) AS begin) AS moments
    CROSS JOIN LATERAL (SELECT month::date AS first,
                               least(month + interval '1 month', date_trunc('day', begin) + interval '1 day')::date
                               AS after
                        FROM generate_series(date_trunc('month', begin) - make_interval(months => :months - 1), begin,
                                             interval '1 month') AS month) AS months"""
    )
)
_REFRESHES = text(
    _LOADS.format(
        windows=f"""
    SELECT *, {_SUMS} AS sums,
           (SELECT jsonb_object_agg(day::date, jsonb_build_array(3, CASE WHEN day = read_on THEN 0 ELSE 3 END, '12.5'))
            FROM generate_series(greatest(first, read_on - 6), after - 1, interval '1 day') AS day
            WHERE amount <> '') AS changed_days,
           after > read_on - 6 AS changed
    FROM {_PAIRS}
    CROSS JOIN LATERAL (SELECT moment, CAST(moment AS date) AS read_on
                        FROM generate_series(CAST(:begin AS timestamptz) + interval '1 day',
                                             CAST(:now AS timestamptz), interval '1 day') AS moment) AS moments
    CROSS JOIN LATERAL (SELECT greatest(month::date, read_on - lookback) AS first,
                               least(month + interval '1 month', read_on + 1)::date AS after
                        FROM generate_series(date_trunc('month', read_on - lookback), read_on, interval '1 month')
                             AS month) AS months"""
    )
)


def measure(*, accounts: int = 1_000, months: int = 24, days: int = 58, runs: int = 3) -> Samples:
    """Options: accounts, months of each, days of refreshes, and runs of which the medians are printed."""
    with temporary_server() as (server, folder), Database(server.database("receipts")) as database:
        database.migrate()
        account_days = fill(database, accounts, months, days)
        with database.begin() as connection:
            count = connection.execute(text("SELECT count(*) FROM platform.loads")).scalar_one()
        samples = Samples(f"{count:,} receipts")
        variables = environment(folder, SELLER_PLATFORM_DATABASE_URL=database.url)
        for _ in range(runs):
            for name, question in questions(database, account_days).items():
                took = spent(question, server)
                samples.add(name, own_CPU=took.own, PostgreSQL_CPU=took.postgres, seconds=took.seconds)
            took = spent_by_command([*COMMAND, "status", "--json"], variables, server)
            samples.add("`status --json`", own_CPU=took.own, PostgreSQL_CPU=took.postgres, seconds=took.seconds)
    return samples


def questions(database: Database, days: list[AccountDay]) -> dict[str, Callable[[], object]]:
    """Return what is measured, by name."""
    datasets, accounts = [*DATED, STOCK], [day.account for day in days]
    since = days[0].today - timedelta(days=700)
    return {
        "lookbacks (settledness)": lambda: lookbacks(database, datasets, accounts, adaptive=True),
        "days due": lambda: days_due(database, datasets, days, since=since),
        "stored days of `verify`": lambda: StoredDays(stored_windows(database)),
        "open holds": lambda: open_holds(database),
    }


def fill(database: Database, number: int, months: int, days: int) -> list[AccountDay]:
    """Store so many accounts and receipts of so many days, and return the local days of the accounts."""
    now = datetime.now(UTC)
    account = Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "DE", "S")
    keys = [f"S{each}.DE" for each in range(1, number + 1)]
    connect_accounts(database, [(key, account) for key in keys])
    begin = (now - timedelta(days=days)).replace(hour=11)
    with database.begin() as connection:
        connection.execute(text("ALTER TABLE platform.loads DISABLE TRIGGER keep_slice"))
        for statement, datasets in ((_HISTORY, DATED), (_REFRESHES, (*DATED, STOCK))):
            values = {
                "datasets": [dataset.name for dataset in datasets],
                "amounts": [dataset.money[0].name if dataset.money else "" for dataset in datasets],
                "lookbacks": [dataset.lookback_days for dataset in datasets],
                "accounts": number,
                "begin": begin,
            }
            connection.execute(statement, {**values, **({"months": months} if statement is _HISTORY else {"now": now})})
        fill_slices(driver_of(connection))
        connection.execute(text("ALTER TABLE platform.loads ENABLE TRIGGER keep_slice"))
    with database.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(
            text("VACUUM ANALYZE platform.loads, platform.slices")
        )
    return [AccountDay.at(now, key, ZoneInfo("Europe/Berlin")) for key in keys]
