"""Observing loads: what logs and traces tell of each slice while it is loaded, never of its rows."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.trace import Span

from seller_platform.errors import SellerPlatformError
from seller_platform.logs import are_json, facts, log_context
from seller_platform.traces import span, with_values
from seller_platform.warehouse.loads.slices import Receipt, Slice

_LOG = logging.getLogger(__name__)


class ObservedLoad:
    """A load under way."""

    def __init__(self, current: Span) -> None:
        self._span = current

    def stored(self, receipt: Receipt) -> Receipt:
        """Tell what was stored, and return the receipt."""
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
        self._span.set_attributes(with_values(_named(attributes)))
        _LOG.info(
            "%s of %s, %s: %d rows, %s",
            receipt.dataset,
            receipt.account,
            receipt.window,
            receipt.rows,
            receipt.verdict,
            extra=facts(**attributes),
        )
        return receipt


@contextmanager
def observed_load(wanted: Slice, *, run_id: str | None) -> Iterator[ObservedLoad]:
    """Let everything that is logged and traced within the block tell the slice that is loaded, and the Dagster run."""
    attributes = {
        "dataset": wanted.dataset.name,
        "account": wanted.account,
        "window": str(wanted.window),
        "run_id": run_id,
    }
    with log_context(**attributes), span(f"load {wanted.dataset.name}", _named(attributes)) as current:
        try:
            yield ObservedLoad(current)
        except SellerPlatformError as error:
            if are_json():  # people are told by Dagster, or at the end of the command
                _LOG.error("%s", error, extra=facts(error=type(error).__name__, next_step=error.next_step))
            raise


def _named(attributes: Mapping[str, str | int | float | None]) -> dict[str, str | int | float | None]:
    """Return facts as the attributes of a span, whose names others share."""
    return {f"seller_platform.{name}": value for name, value in attributes.items()}
