"""Ends a command on Ctrl-C or SIGTERM: orderly within a second, then by force.

Until a command has begun its work, a signal ends the process at once. Then a signal raises `InterruptedBySignal` in the
main thread, so that every `with` block ends what it began. Where a thread, a library or a lock keeps the process, the
actions that were registered with `ending` run in another thread, and the process exits. Further signals change nothing.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

ORDERLY_SECONDS = 1.0
"""How long a command may take to end by itself."""

_ACTIONS_SECONDS = 0.6
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Action = Callable[[], object]
Describe = Callable[[int], tuple[str, int]]
"""Returns the message and the exit code for a signal."""


class InterruptedBySignal(KeyboardInterrupt):  # no error: the user wants it
    """A signal asks the command to end."""


class _Interruption:
    """The state of this process: the first signal, and what remains to be ended."""

    def __init__(self) -> None:
        self.number = 0
        self.has_begun = False
        self.is_described = self.is_raised = False
        self.deferred = 0
        self.actions: dict[object, tuple[Action, Action | None]] = {}
        self.received = threading.Event()
        self.describe: Describe = lambda number: ("", 128 + number)


_state = _Interruption()


def prepare(describe: Describe, *, with_ignored: bool) -> None:
    """End this process in a sentence when SIGINT or SIGTERM comes.

    Args:
        with_ignored: Also where a shell started the process in the background, with SIGINT ignored.
    """
    _state.describe = describe
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    # The interpreter writes the number of each signal to it, also while a library has replaced the handlers.
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in _SIGNALS:
        if with_ignored or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)
    threading.Thread(target=_watch, args=(read_end,), name="signals", daemon=True).start()


def begin() -> None:
    """Let signals raise `InterruptedBySignal` from now on, because there may be something to end."""
    _state.has_begun = True


def is_ending() -> bool:
    """Return whether a signal has come, so that nothing may take long any more."""
    return _state.received.is_set()


@contextmanager
def deferred(*, raises: bool = True) -> Iterator[None]:
    """Let no signal interrupt the block, because half of it would leave something behind.

    Args:
        raises: Raise the exception of such a signal at the end of the block.
    """
    _state.deferred += 1
    try:
        yield
    finally:
        _state.deferred -= 1
    if raises and _state.number and not _state.deferred and threading.current_thread() is threading.main_thread():
        raise InterruptedBySignal


def check() -> None:
    """Raise the exception of a signal that a library has caught."""
    if is_ending():
        raise InterruptedBySignal


@contextmanager
def ending(action: Action) -> Iterator[None]:
    """Run an action if the process is ended by force within the block."""
    key = register(action)
    try:
        yield
    finally:
        unregister(key)


def register(action: Action, *, at_once: Action | None = None) -> object:
    """Run an action if the process is ended by force, until `unregister` is called with the result.

    Args:
        at_once: Runs in another thread as soon as a signal comes.
    """
    key = object()
    _state.actions[key] = (action, at_once)
    return key


def unregister(key: object) -> None:
    """Do not run an action any more."""
    _state.actions.pop(key, None)


def finish() -> NoReturn:
    """Print what was kept, run the registered actions, and exit with the signal's code."""
    _state.received.wait(0.2)  # another thread notes the signal where a library caught it
    code = _print_once(_state.number or signal.SIGINT)
    _run([action for action, _ in _state.actions.values()])
    _exit(code)


def _on_signal(number: int, _: Any) -> None:
    _state.number = _state.number or number  # the other thread may have noted it
    if _state.is_raised:
        return
    _state.is_raised = True
    if not _state.has_begun:
        code = _print_once(number)
        os._exit(code)
    _state.received.set()
    if not _state.deferred:
        raise InterruptedBySignal


def _watch(read_end: int) -> None:
    """Note the first signal, and end the process by force a second later."""
    while (number := os.read(read_end, 1)[0]) not in _SIGNALS:
        pass
    _state.number = _state.number or number
    _state.received.set()
    threading.Thread(target=_run, args=([each for _, each in _state.actions.values()],), daemon=True).start()
    time.sleep(ORDERLY_SECONDS)
    actions = threading.Thread(target=_run, args=([each for each, _ in _state.actions.values()],), daemon=True)
    actions.start()
    actions.join(_ACTIONS_SECONDS)
    _exit(_print_once(_state.number))


def _exit(code: int) -> NoReturn:
    """Exit without the interpreter's own end, which takes long after large imports."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(code)


def _run(actions: Sequence[Action | None]) -> None:
    for action in reversed(actions):
        with suppress(Exception):  # the others run all the same
            if action is not None:
                action()


def _print_once(number: int) -> int:
    message, code = _state.describe(number)
    if message and not _state.is_described:
        _state.is_described = True
        with suppress(OSError):
            os.write(2, f"{message}\n".encode())
    return code
