"""How many rows a day of an account usually has, by its weekday."""

from collections.abc import Mapping
from datetime import date, timedelta
from statistics import median

from sqlalchemy import func, select, text

from seller_platform.contract import LOCAL_DAY, Dataset, Window
from seller_platform.warehouse.history.settledness import FEWEST_DAYS
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import table_for

_WEEKS = 8
_FEWEST_WEEKS = 4
_FEWEST_ROWS = 20
_DEVIATIONS = 7.5
_TIMES = 3

_DAYS_READ = text("""
    SELECT month + CAST(number AS integer) - 1
    FROM platform.slices, unnest(days_read) WITH ORDINALITY AS day (read_at, number)
    WHERE dataset = :dataset AND account = :account AND month BETWEEN :first AND :last AND day.read_at IS NOT NULL
""")


def unusual_days(
    database: Database, dataset: Dataset, account: str, window: Window, read: Mapping[str, int], *, today: date
) -> dict[str, dict[str, int]]:
    """Return the new days whose number of rows lies far from that of the same weekday in the eight weeks before.

    A day is far from the others if it has less than a third or more than three times their median, and differs from it
    by more than 7.5 median deviations and by more than 20 rows. Today is not judged, nor is a weekday of which
    fewer than four were read.

    Args:
        read: The rows that were read, by local day as text.

    Returns:
        The rows of each such day and the expected number, as `{"2026-03-02": {"rows": 3, "expected": 120}}`.
    """
    # The next refresh reads each of these days again.
    days = list(window.since(today - timedelta(days=FEWEST_DAYS)).until(today).each_day())
    if not days or not dataset.is_divisible:
        return {}
    column, of_account = table_for(dataset).c[LOCAL_DAY], table_for(dataset).c.account == account
    compared = {day: [day - timedelta(weeks=week) for week in range(1, _WEEKS + 1)] for day in days}
    wanted = sorted({each for weeks in compared.values() for each in weeks})
    bound = {"dataset": dataset.name, "account": account, "first": wanted[0].replace(day=1), "last": wanted[-1]}
    counted = select(column, func.count()).where(of_account, column.in_(wanted)).group_by(column)
    with database.begin() as connection:
        # Slices first, because others are loaded meanwhile: a day that was read has its rows then.
        were_read = set(connection.execute(_DAYS_READ, bound).scalars())
        rows = dict(connection.execute(counted).tuples().all())
    unusual = {}
    for day, weeks in compared.items():
        usual = [rows.get(each, 0) for each in weeks if each in were_read]
        count = read.get(str(day), 0)
        if len(usual) < _FEWEST_WEEKS:
            continue
        middle = median(usual)
        deviation = median(abs(each - middle) for each in usual)
        is_other = count * _TIMES < middle or count > middle * _TIMES
        if is_other and abs(count - middle) > max(_FEWEST_ROWS, _DEVIATIONS * deviation):
            unusual[str(day)] = {"rows": count, "expected": round(middle)}
    return unusual
