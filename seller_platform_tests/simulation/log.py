"""The log of a run: one line for each event, the same for each run of a seed."""

from collections.abc import Iterator


class EventLog:
    """Numbers the events of a run and keeps them."""

    def __init__(self) -> None:
        self._events: list[tuple[float, str, str, object]] = []

    def __len__(self) -> int:
        return len(self._events)

    def add(self, seconds: float, actor: str, kind: str, subject: object) -> None:
        """Add an event.

        Args:
            seconds: The world's time.
            subject: It becomes text when the log is written.
        """
        self._events.append((seconds, actor, kind, subject))

    def lines(self) -> Iterator[str]:
        """Yield the events as text."""
        for number, (seconds, actor, kind, subject) in enumerate(self._events, start=1):
            yield f"{number:05d} {seconds:12.2f} {actor:<12} {kind:<8} {subject}"
