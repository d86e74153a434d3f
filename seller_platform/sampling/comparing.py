"""Compares a random sample of stored slices with the upstream, and makes what differs equal.

It spends at most a hundredth of the requests of a day, an hour's share of them in each hour. A drawn slice that does
not fit yet waits for the next hour: another one in its place would make small slices more likely.
"""

from collections.abc import Iterator
from datetime import UTC
from random import Random

from seller_platform.clocks import utc_now
from seller_platform.errors import ReadingHeldError, RequestsUsedUpError
from seller_platform.ingest.loads.loading import SECOND_READING_SECONDS, SliceLoader, SliceResult, load_each
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.sampling.draws import (
    DrawnSlice,
    Stratum,
    count_slices,
    draw,
    keep_comparison,
    last_comparison,
    requests_of_comparisons,
)
from seller_platform.warehouse.loads.expectations import expected_loads
from seller_platform.warehouse.postgres.advisory_locks import releasing, try_hold
from seller_platform.warehouse.postgres.database import Database

USUAL_REQUESTS_PER_DAY = 10_000
"""How many requests a day counts as having where their number is not limited."""

_SHARE = 100
_OF_SETTLED = 0.75
_MOST_FAILURES = 3
_LOCK = "comparisons at random"


def requests_for_comparisons(requests_per_day: int | None) -> int:
    """Return how many requests of a day comparisons may send, of each connection."""
    return (USUAL_REQUESTS_PER_DAY if requests_per_day is None else requests_per_day) // _SHARE


def compare_sample(
    loader: SliceLoader, *, requests_per_day: int | None, second_reading_seconds: float = SECOND_READING_SECONDS
) -> Iterator[SliceResult]:
    """Draw slices, request each again and compare it by value, until the hour's share of requests is spent.

    A slice that differs is loaded by that, or held. It ends after three slices that could not be read, because the
    upstream is then likely to answer none. It compares nothing while another process does.

    Args:
        requests_per_day: How many requests each connection may send on one day; None for any number.
    """
    database, now = loader.database, loader.now.astimezone(UTC)
    of_day = requests_for_comparisons(requests_per_day)
    of_hours, failures = of_day * (now.hour + 1) // 24, 0
    with database.connect() as connection, releasing(connection):
        if not try_hold(connection, _LOCK):
            return
        connection.commit()
        count_slices(database, of_day, now)
        # A number is drawn for each comparison in turn, so that a slice which waits is drawn again in the next hour.
        while failures < _MOST_FAILURES and (drawn := _drawn(database, of_day)) is not None:
            slices = [(drawn.dataset, drawn.account, drawn.window)]
            (expected,) = expected_loads(database, slices, requests_per_day=requests_per_day)
            sent = requests_of_comparisons(database, now.date()).get(drawn.connection, 0)
            if expected.requests > of_day:  # by its receipts, it takes more than its rows say
                keep_comparison(database, drawn, started_at=now, requests=0, differed=None)
                failures += 1
                continue
            if sent + expected.requests > of_hours:
                return
            request = SliceRequest(drawn.dataset, drawn.account, drawn.window, by_value="a comparison at random")
            started_at = utc_now()
            (result,) = load_each([request], loader, second_reading_seconds=second_reading_seconds, records=False)
            if isinstance(result.error, RequestsUsedUpError):
                return
            receipt = result.receipt
            differed = receipt.changed if receipt else isinstance(result.error, ReadingHeldError) or None
            sent, load_id = (receipt.requests, receipt.id) if receipt else (expected.requests, None)
            keep_comparison(database, drawn, started_at=started_at, requests=sent, differed=differed, load_id=load_id)
            failures += differed is None
            yield result


def _drawn(database: Database, requests: int) -> DrawnSlice | None:
    """Return the next slice, three in four of them settled; None if there is none."""
    chance = Random(last_comparison(database))  # noqa: S311  # not a secret
    is_settled, point = chance.random() < _OF_SETTLED, chance.random()
    for stratum in sorted(Stratum, key=lambda each: (each is Stratum.SETTLED) is not is_settled):
        drawn = draw(database, stratum, point, requests)
        if drawn is not None:
            return drawn
    return None
