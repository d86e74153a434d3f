"""The replica: our service over the warehouse, on a loopback port, for as long as it is needed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from seller_platform.cli.processes import await_answer, free_port, running
from seller_platform.cli.workplace import Workplace
from seller_platform.contract.endpoints import SERVICE_STATUS


@contextmanager
def open_replica(place: Workplace) -> Iterator[str]:
    """Serve the warehouse until the block ends, as `service run` would, and yield the base URL.

    Raises:
        ServiceStartError: The service does not answer.
    """
    port, log = free_port(), place.settings.home / "replica.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "seller_platform.cli", "service", "run", "--no-worker", "--port", str(port)]
    # In the environment, where no list of processes shows it.
    variables = {"SELLER_PLATFORM_SERVICE_DATABASE_URL": place.database.url}
    with running("the replica", command, variables, log) as replica:
        base_url = f"http://127.0.0.1:{port}"
        await_answer(f"{base_url}{SERVICE_STATUS}", replica)
        yield base_url
