"""Runs our commands as a person's shell would."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "seller_platform.cli"]


def environment(home: Path, **variables: str) -> dict[str, str]:
    """Return the variables of a fresh shell: ours unset, but for those given."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("SELLER_", "DAGSTER_", "PYTHONWARN"))
    }
    return {**kept, "SELLER_PLATFORM_HOME": str(home), "PYTHONUNBUFFERED": "1", **variables}


def run(arguments: list[str], variables: dict[str, str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments], env=variables, capture_output=True, text=True, timeout=240, check=False, **options
    )


def document(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the JSON document that a command printed with `--json`."""
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def free_port() -> int:
    """Return a port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
