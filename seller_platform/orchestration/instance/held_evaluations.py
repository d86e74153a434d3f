"""Evaluations of checks that are stored with one statement, such as those of a slice.

Dagster hands every evaluation to its storage by itself. A slice has up to eight, which are most of its events.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dagster import DagsterEventType, DagsterInstance, EventLogEntry

_held: ContextVar[list[EventLogEntry] | None] = ContextVar("held evaluations", default=None)


@contextmanager
def stored_together(instance: DagsterInstance) -> Iterator[None]:
    """Store the evaluations that a step yields within the block together, when the block ends.

    The block yields nothing else and takes no long work, for its evaluations are visible only afterwards. They are
    stored if the step is interrupted within the block, too. A storage that does not ask `hold` stores each by itself.
    """
    held: list[EventLogEntry] = []
    token = _held.set(held)
    try:
        yield
    finally:
        _held.reset(token)
        if held:
            instance.event_log_storage.store_event_batch(held)


def hold(event: EventLogEntry) -> bool:
    """Return whether a block stores this event when it ends."""
    held = _held.get()
    if held is None or not is_evaluation_of_run(event):
        return False
    held.append(event)
    return True


def is_evaluation_of_run(event: EventLogEntry) -> bool:
    """Return whether an event is the evaluation of a check in a run; without a run, it replaces the one before."""
    return bool(event.run_id) and event.dagster_event_type == DagsterEventType.ASSET_CHECK_EVALUATION
