"""Observing loads: what the log tells of each slice while it is loaded, never of its rows."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from seller_platform.errors import SellerPlatformError
from seller_platform.logs import are_json, facts, log_context
from seller_platform.warehouse.slices import Receipt, Slice

_LOG = logging.getLogger(__name__)


class ObservedLoad:
    """A load under way."""

    def stored(self, receipt: Receipt) -> Receipt:
        """Tell what was stored, and return the receipt."""
        _LOG.info(
            "%s of %s, %s: %d rows, %s",
            receipt.dataset,
            receipt.account,
            receipt.window,
            receipt.rows,
            receipt.verdict,
            extra=facts(
                load_id=receipt.id,
                rows=receipt.rows,
                announced=receipt.announced,
                verdict=receipt.verdict,
                requests=receipt.requests,
                pages=receipt.pages,
                body_bytes=receipt.body_bytes,
                seconds=round(receipt.seconds, 3),
            ),
        )
        return receipt


@contextmanager
def observed_load(wanted: Slice, *, run_id: str | None) -> Iterator[ObservedLoad]:
    """Let everything that is logged within the block tell the slice that is loaded, and the Dagster run."""
    told = {"dataset": wanted.dataset.name, "account": wanted.account, "window": str(wanted.window), "run_id": run_id}
    with log_context(**told):
        try:
            yield ObservedLoad()
        except SellerPlatformError as error:
            if are_json():  # people are told by Dagster, or at the end of the command
                _LOG.error("%s", error, extra=facts(error=type(error).__name__, next_step=error.next_step))
            raise
