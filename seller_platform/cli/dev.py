"""`seller-platform dev`: sandbox service, Dagster UI and daemon, until Ctrl-C."""

import os
import signal
import sys
import threading

import click

from seller_platform.cli.demo import connect_playground
from seller_platform.cli.output import Output
from seller_platform.cli.playground import USER_EMAIL, Playground, await_answer, open_playground, port_or_free, running
from seller_platform.cli.workplace import open_workplace
from seller_platform.errors import SellerPlatformError
from seller_platform.settings import read_settings

_LOOK_SECONDS = 1.0


class ProcessEndedError(SellerPlatformError):
    """A process that should run until Ctrl-C has ended by itself."""


@click.command()
@click.option("--port", default=3000, show_default=True, help="Port of the Dagster UI; if it is taken, another one.")
@click.option("--service-port", default=8700, show_default=True, help="Port of the service; likewise.")
def dev(*, port: int, service_port: int) -> None:
    """Run the sandbox service, the Dagster UI and its daemon, until Ctrl-C."""
    output = Output(as_json=False)
    ended = threading.Event()
    # Handlers of our own, so that the programs started below do not inherit signals that a shell told us to ignore.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with open_playground(read_settings().home, output, port=port_or_free(service_port)) as playground:
        os.environ.update(playground.environment)
        dagster_folder = _prepare(playground, output)
        address = f"http://127.0.0.1:{port_or_free(port)}"
        log = playground.home / "dagster.log"
        with running(_dagster(address), {"DAGSTER_HOME": dagster_folder}, log) as dagster:
            if not ended.is_set():
                await_answer(f"{address}/server_info", dagster, log, unless=ended)
            output.line(f"Dagster UI        {address}")
            output.line(f"Service           {playground.base_url}")
            output.line(f"Sandbox login     {USER_EMAIL}")
            output.line(f"Sandbox password  {playground.credentials.password}")
            output.line("Ctrl-C ends everything.")
            while not ended.wait(_LOOK_SECONDS):
                for name, process in (("Dagster", dagster), ("the service", playground.service)):
                    if process.poll() is not None:
                        raise ProcessEndedError(f"{name} has ended by itself; look into the logs in {playground.home}")
        output.say("Ended.")


def _prepare(playground: Playground, output: Output) -> str:
    """Connect to the sandbox and add the accounts' partitions; return the folder of the Dagster instance."""
    from seller_platform.orchestration.instance import dagster_home, open_instance
    from seller_platform.orchestration.partitions import add_accounts

    with open_workplace() as place:
        known = connect_playground(place, playground, output)
        with open_instance(place.settings.home) as instance:
            add_accounts(instance, [each.key for each in known])
        return str(dagster_home(place.settings.home))


def _dagster(address: str) -> list[str]:
    from seller_platform.orchestration.instance import shipped_file

    host, port = address.removeprefix("http://").split(":")
    workspace = str(shipped_file("workspace.yaml"))
    return [sys.executable, "-m", "dagster", "dev", "--workspace", workspace, "--host", host, "--port", port]
