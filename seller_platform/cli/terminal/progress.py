"""Progress in a terminal: what is being done, how much of it, and for how long."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from seller_platform import interruption
from seller_platform.cli.terminal.colours import is_terminal, shows_colours

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_lock = threading.RLock()
_shown: "Progress | None" = None  # of all steps: a process has one terminal


class Step:
    """A step of a command, with how much of it is done."""

    def __init__(self, words: str, total: int | None) -> None:
        self._words, self._total, self._done = words, total, 0
        self._task: TaskID | None = None
        self._is_over = False

    def __call__(self, done: int, total: int | None = None) -> None:
        """Set how much is done, and of how much."""
        with _lock:
            self._done, self._total = done, self._total if total is None else total
            if _shown is not None and self._task is not None:
                _shown.update(self._task, **self._facts())

    def _facts(self) -> dict[str, Any]:
        """Return what is shown beside the words; the bar is empty where the total is not known."""
        if not self._total:
            return {"completed": 0, "total": 1, "count": ""}
        return {"completed": self._done, "total": self._total, "count": f"{self._done:,}/{self._total:,}"}

    def begin(self) -> None:
        """Show the step, unless it is over."""
        # rich takes two tenths of a second to import, and most steps end sooner.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        global _shown  # noqa: PLW0603  # as above
        with _lock:
            if self._is_over:
                return
            if _shown is None:
                has_colours = shows_colours(sys.stderr)
                console = Console(stderr=True, color_system="standard" if has_colours else None, highlight=False)
                texts = (TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[count]"))
                columns = (SpinnerColumn("line"), *texts, BarColumn(bar_width=20), TimeElapsedColumn())
                # Lines of the log are written above it. Standard output may be another stream.
                _shown = Progress(*columns, console=console, transient=True, redirect_stdout=False)
            self._task = _shown.add_task(self._words, **self._facts())
            _shown.start()

    def end(self) -> None:
        """Show the step no more."""
        with _lock:
            self._is_over = True
            if _shown is not None and self._task is not None:
                _shown.remove_task(self._task)
                self._task = None
                if not _shown.tasks:
                    _shown.stop()


@contextmanager
def progress(words: str, total: int | None = None) -> Iterator[Step]:
    """Show a step that takes long until the block ends, if standard error is a terminal."""
    step = Step(words, total)
    if not is_terminal(sys.stderr):
        yield step
        return
    timer = threading.Timer(0.5, step.begin)  # a step that ends sooner shows nothing
    timer.daemon = True
    timer.start()
    try:
        with interruption.ending(step.end):  # the cursor is hidden until then
            yield step
    finally:
        timer.cancel()
        step.end()


@contextmanager
def hidden() -> Iterator[None]:
    """Remove the progress from the terminal while the block writes to it."""
    with _lock:
        shown = _shown if _shown is not None and _shown.tasks else None
        if shown is not None:
            shown.stop()
        try:
            yield
        finally:
            if shown is not None:
                shown.start()
