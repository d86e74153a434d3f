"""`seller-platform dev`: runs sandbox service, Dagster UI and daemon, until Ctrl-C."""

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path

import click

from seller_platform import interruption
from seller_platform.cli.installation import Installation, make_home, open_installation
from seller_platform.cli.metrics import PORT
from seller_platform.cli.output import Output
from seller_platform.cli.sync import SliceOptions, run_sync
from seller_platform.clocks import utc_now
from seller_platform.contract import Window
from seller_platform.errors import SellerPlatformError
from seller_platform.files import write_for_this_start
from seller_platform.marts.commands import build_due, states_of
from seller_platform.sandbox.commands.demo import connect_local_stack
from seller_platform.sandbox.commands.fill import accounts_option, months_option
from seller_platform.sandbox.commands.local_stack import GROUP_TITLE, USER_EMAIL, open_local_stack
from seller_platform.sandbox.commands.processes import Program, await_answer, free_port, running
from seller_platform.settings import DEMO_FOLDER
from seller_platform.warehouse.connections.accounts import accounts as listed
from seller_platform.warehouse.derived.registry import MARTS

_UNFINISHED = ("NOT_STARTED", "STARTING", "STARTED", "CANCELING")
_LIVE_DAYS, _LIVE_DAY_SECONDS = 14, 20
_MODULE = "seller_platform.orchestration.definitions"
# With this variable of Dagster's daemon, a backfill waits while the code location is away; otherwise it fails.
_WAITING = "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR"
_DAY = re.compile(r"\d{4}-\d\d-\d\d ")


@click.command()
@click.option(
    "--port", default=3000, show_default=True, type=PORT, help="Port of the Dagster UI; if it is in use, another one."
)
@click.option(
    "--service-port",
    default=8700,
    show_default=True,
    type=PORT,
    help="Port of the service; if it is in use, another one.",
)
@accounts_option
@months_option
@click.option(
    "--load/--no-load",
    "loads_last_month",
    default=True,
    show_default=True,
    help="Load the last month and build its marts before the UI opens.",
)
@click.option(
    "--live",
    "is_live",
    is_flag=True,
    help="Begin two weeks ago, and advance the sandbox by a day every 20 seconds until today.",
)
def dev(*, port: int, service_port: int, accounts: int, months: int, loads_last_month: bool, is_live: bool) -> None:
    """Run the sandbox service, the Dagster UI and its daemon, until Ctrl-C.

    The UI opens with the last month of every account. What is loaded stays for the next time, and history begins where
    an earlier `demo` or `dev` let it begin; `sync --from` loads earlier months.

    With --live, the lists of the sandbox change while it runs: each load reads orders that were shipped, and fees that
    are listed late. Each day that the sandbox reaches is loaded as by `sync`.

    A program that ends is started again; running Dagster runs continue, or the daemon resumes them.
    """
    # Imported here because Dagster takes a second to import, which `--help` does not need.
    from seller_platform.orchestration.instance.home import dagster_home, open_instance
    from seller_platform.orchestration.partitions import add_accounts

    output = Output(as_json=False)
    home = make_home(DEMO_FOLDER).home
    since = utc_now().date() - timedelta(days=_LIVE_DAYS) if is_live else None
    with open_local_stack(
        home, output, port=free_port(service_port), accounts=accounts, months=months, today=since
    ) as stack:
        address = f"http://127.0.0.1:{free_port(port)}"
        os.environ.setdefault("SELLER_PLATFORM_DAGSTER_URL", address)  # for links in alerts
        with open_installation(settings=stack.use()) as installation, ExitStack() as dagster:
            discovered = connect_local_stack(installation, stack, output)
            with open_instance(installation.settings.home) as instance:
                add_accounts(instance, [each.key for each in discovered])
            dagster_folder = str(dagster_home(installation.settings.home))
            # Programs are ended before it: what runs then has no process any more.
            dagster.enter_context(_without_unfinished_runs(installation.settings.home))

            def start(name: str) -> Program:
                variables = {"DAGSTER_HOME": dagster_folder, _WAITING: "1"}
                return dagster.enter_context(running(name, commands[name], variables, stack.home / f"{name}.log"))

            commands = dagster_commands(stack.home, address)
            if since is not None:
                commands["live"] = live_command(since, accounts=accounts, months=months)
            programs = [start("code-location"), start("webserver")]

            def ask_all_to_end() -> None:
                for program in (*programs, stack.service):
                    program.ask_to_end()

            dagster.callback(ask_all_to_end)
            if loads_last_month:
                output.say("Loading the last month; it takes about half a minute.")
                for name, problem in _load_last_month(installation, output).items():
                    output.say(f"not loaded: {name}: {problem}")
            if since is not None:
                programs.insert(2, start("live"))
            # Last, so that it does not request the marts that are being built.
            programs.append(start("daemon"))
            dagster.callback(ask_all_to_end)
            await_answer(f"{address}/server_info", programs[1])
            output.line(f"Dagster UI        {address}")
            output.line(f"Service           {stack.base_url}")
            output.line(f"Sandbox login     {USER_EMAIL}")
            output.line(f"Sandbox password  {stack.credentials.password}")
            output.line(f"Sandbox group     {GROUP_TITLE}")
            if since is not None:
                output.line(f"Live sandbox      since {since}; each of its days is loaded when it is reached")
            output.line("In another shell  `seller-platform status`, or any other command that starts like this")
            output.line("Ctrl-C ends everything.")
            loaded = None
            while True:
                time.sleep(1.0)
                # A program that has ended is started again below, and the day is loaded after that.
                with suppress(SellerPlatformError):
                    loaded = _load_day(installation, programs[2], loaded, output) if is_live else None
                if stack.server.revive():
                    output.say("PostgreSQL ended unexpectedly and is started again.")
                for program in filter(Program.revive, (stack.service, *programs)):
                    output.say(f"{program.name} ended unexpectedly and is started again; its log is {program.log}")


def _load_last_month(installation: Installation, output: Output) -> Mapping[str, str]:
    """Load the months of the last 30 days, build their marts, and return why parts failed, by their names."""
    today = utc_now().date()
    since = (today - timedelta(days=30)).replace(day=1)
    synced = run_sync(installation, SliceOptions(), output, not_before=since)
    keys = [each.key for each in listed(installation.database)]
    months = list(Window(since, Window.month_of(today).end).months())
    due = [each for each in states_of(installation, MARTS, keys, months) if not each.missing and not each.is_current]
    _, failures = build_due(installation, MARTS, due, output)
    return {**synced.failures, **{name: str(failure) for name, failure in failures.items()}}


@contextmanager
def _without_unfinished_runs(home: Path) -> Iterator[None]:
    """Cancel the runs that are not finished after the block, when no program executes them any more."""
    # Imported here because Dagster takes a second to import, which `--help` does not need.
    import dagster as dg

    from seller_platform.orchestration.instance.home import open_instance

    unfinished = dg.RunsFilter(statuses=[dg.DagsterRunStatus(name) for name in _UNFINISHED])
    with open_instance(home) as instance:

        def end_runs() -> None:
            for run in instance.get_runs(unfinished):
                instance.report_run_canceled(run, message="`seller-platform dev` ended before this run.")

        with interruption.ending(end_runs):
            try:
                yield
            finally:
                end_runs()


def dagster_commands(home: Path, address: str) -> dict[str, list[str]]:
    """Return the commands of a Dagster deployment, separate so that one failure ends no other."""
    host, port = address.removeprefix("http://").split(":")
    code_port = str(free_port())
    workspace = home / "workspace.yaml"
    write_for_this_start(
        workspace, f"load_from:\n  - grpc_server: {{host: {host}, port: {code_port}, location_name: seller_platform}}\n"
    )
    dagster = [sys.executable, "-m", "dagster"]
    code = ["api", "grpc", "--module-name", _MODULE, "--host", host, "--port", code_port]
    where = ["--workspace", str(workspace)]
    return {
        "code-location": [*dagster, *code, "--use-python-environment-entry-point", "--lazy-load-user-code"],
        "daemon": [sys.executable, "-m", "dagster._daemon", "run", *where],
        "webserver": [sys.executable, "-m", "dagster_webserver", *where, "--host", host, "--port", port],
    }


def live_command(since: date, *, accounts: int, months: int) -> list[str]:
    """Return the command that advances the sandbox of the home folder day by day."""
    options = {"--from": since, "--accounts": accounts, "--months": months, "--days-per-second": 1 / _LIVE_DAY_SECONDS}
    words = [str(word) for option in options.items() for word in option]
    return [sys.executable, "-m", "seller_platform.cli", "sandbox", "live", "--continue", *words]


def _load_day(installation: Installation, live: Program, loaded: str | None, output: Output) -> str | None:
    """Load the lists if the sandbox has reached another day than was loaded, and return the line of that day."""
    reached = next(filter(_DAY.match, reversed(live.log.read_text().splitlines())), None)
    failures = run_sync(installation, SliceOptions(), output).failures if reached != loaded else {}
    for name, problem in failures.items():
        output.say(f"not loaded: {name}: {problem}; it is tried again")
    return loaded if failures else reached
