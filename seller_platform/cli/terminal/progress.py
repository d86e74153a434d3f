"""A line at the bottom of a terminal that says what is being done, and for how long."""

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from seller_platform.cli.terminal.colours import is_terminal

_WAIT_SECONDS = 0.2  # a step that ends sooner shows nothing
_DRAW_SECONDS = 0.1
_BAR = 20
_ERASE = "\r\x1b[2K"


class Step:
    """A step of a command, with how much of it is done."""

    def __init__(self, words: str, total: int | None) -> None:
        self._words, self._total, self._done = words, total, 0
        self._began = time.monotonic()

    def __call__(self, done: int, total: int | None = None) -> None:
        """Set how much is done, and of how much."""
        self._done, self._total = done, self._total if total is None else total

    @property
    def is_due(self) -> bool:
        """Whether the step has taken long enough to be shown."""
        return time.monotonic() - self._began > _WAIT_SECONDS

    def text(self, width: int) -> str:
        """Return the line: the words, then a bar and the count where the total is known, then the seconds."""
        seconds = f"{time.monotonic() - self._began:.0f} s"
        if not self._total:
            return _joined(width, self._words, seconds)
        done = min(self._done, self._total)
        filled = _BAR * done // self._total
        bar = "#" * filled + "." * (_BAR - filled)
        return _joined(width, self._words, bar, f"{done:,}/{self._total:,}", seconds)


_steps: list[Step] = []
_lock = threading.RLock()
_is_drawn = False


@contextmanager
def progress(words: str, total: int | None = None) -> Iterator[Step]:
    """Show a step until the block ends, if standard error is a terminal."""
    step = Step(words, total)
    if not is_terminal(sys.stderr):
        yield step
        return
    ended = threading.Event()
    _steps.append(step)
    drawing = threading.Thread(target=_draw_until, args=(ended, step), daemon=True)
    drawing.start()
    try:
        yield step
    finally:
        ended.set()
        with _lock:
            _steps.remove(step)
            erase()


def erase() -> None:
    """Remove the line, so that other text can be written; the step draws it again."""
    global _is_drawn  # noqa: PLW0603  # a process has one terminal
    with _lock:
        if _is_drawn:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
            _is_drawn = False


def _draw_until(ended: threading.Event, step: Step) -> None:
    global _is_drawn  # noqa: PLW0603  # a process has one terminal
    while not ended.wait(_DRAW_SECONDS):
        with _lock:
            if step.is_due and _steps and _steps[-1] is step:
                text = step.text(shutil.get_terminal_size().columns - 1)
                sys.stderr.write(f"{_ERASE}{text}")
                sys.stderr.flush()
                _is_drawn = True


def _joined(width: int, *parts: str) -> str:
    """Return the parts that fit, the first one in any case."""
    chosen = list(parts)
    while len(chosen) > 1 and len("  ".join(chosen)) > width:
        chosen.pop(1)
    return "  ".join(chosen)[:width]
