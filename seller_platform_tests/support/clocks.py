"""A clock that other processes share, and that is moved forward while they run."""

import mmap
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

_SOURCE = Path(__file__).with_name("moved_clock.c")
_BYTES = 8
NO_COMPILER = "a moved clock needs a C compiler; install the Debian package gcc"


class MovedClock:
    """The clock of the machine, plus a difference that can change at any moment.

    Attributes:
        ahead: The difference.
    """

    def __init__(self, folder: Path) -> None:
        """Compile the library that gives the processes this clock, with the C compiler of the machine.

        Args:
            folder: Every user of the processes has to reach it.
        """
        compiler = shutil.which("cc")
        assert compiler, NO_COMPILER
        self._library, self._file = folder / "moved_clock.so", folder / "clock"
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", self._library, _SOURCE], check=True)
        self._file.write_bytes(bytes(_BYTES))
        for path in (self._library, self._file):
            path.chmod(0o644)
        self.move(timedelta())

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that has this clock, as has all that it starts."""
        return {"LD_PRELOAD": str(self._library), "SELLER_PLATFORM_TESTS_CLOCK": str(self._file)}

    def now(self) -> datetime:
        """Return the time that the processes have."""
        return datetime.now(UTC) + self.ahead

    def move(self, ahead: timedelta) -> None:
        """Set the difference."""
        self.ahead = ahead
        with self._file.open("r+b") as file, mmap.mmap(file.fileno(), _BYTES) as shared:
            shared[:] = (ahead // timedelta(microseconds=1) * 1000).to_bytes(_BYTES, "little", signed=True)
