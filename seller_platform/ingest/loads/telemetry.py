"""Logs and traces of loads: facts about each slice, never its rows."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from seller_platform.errors import SellerPlatformError
from seller_platform.logs import are_json, facts, log_context
from seller_platform.traces import span
from seller_platform.warehouse.loads.receipts import Receipt, Slice

_LOG = logging.getLogger(__name__)


@contextmanager
def observed_load(requested: Slice, *, run_id: str | None) -> Iterator[Callable[[Receipt], Receipt]]:
    """Add the slice and the Dagster run to all logs and spans within the block.

    It lends a function that logs the receipt, adds it to the span, and returns it.
    """
    attributes = {
        "dataset": requested.dataset.name,
        "account": requested.account,
        "window": str(requested.window),
        "run_id": run_id,
    }
    with log_context(**attributes), span(f"load {requested.dataset.name}", _named(attributes)) as current:

        def stored(receipt: Receipt) -> Receipt:
            attributes = {
                "load_id": receipt.id,
                "rows": receipt.rows,
                "announced": receipt.announced,
                "verdict": receipt.verdict.value,
                "requests": receipt.requests,
                "pages": receipt.pages,
                "body_bytes": receipt.body_bytes,
                "seconds": round(receipt.seconds, 3),
            }
            current.set_attributes(_named(attributes))
            values = (receipt.dataset, receipt.account, receipt.window, receipt.rows, receipt.verdict)
            _LOG.info("%s of %s, %s: %d rows, %s", *values, extra=facts(**attributes))
            return receipt

        try:
            yield stored
        except SellerPlatformError as error:
            if are_json():  # people see the error in Dagster, or at the end of the command
                _LOG.error("%s", error, extra=facts(error=error.code, next_step=error.next_step))
            raise


def _named(attributes: Mapping[str, str | int | float | None]) -> dict[str, str | int | float]:
    """Return the attributes that have a value, with a prefix, because other libraries use the same names."""
    return {f"seller_platform.{name}": value for name, value in attributes.items() if value is not None}
