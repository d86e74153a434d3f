"""`seller-platform demo`: connects to the sandbox, loads every list and all costs, and checks the rows."""

import os
import re
import threading
from collections.abc import Sequence
from html import unescape
from urllib.parse import urljoin

import click
import httpx

from seller_platform.cli.connect import connect_upstream
from seller_platform.cli.installation import Installation, open_installation
from seller_platform.cli.output import Output, json_option
from seller_platform.cli.sandbox.local_stack import USER_EMAIL, LocalStack, open_local_stack
from seller_platform.cli.sync import SliceOptions, problem_of, report, run_sync
from seller_platform.contract import REFRESHED
from seller_platform.errors import AuthorizationDeniedError, CheckFailedError
from seller_platform.ingest.connections.upstream import DEFAULT_CONNECTION, Upstream
from seller_platform.settings import read_settings
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.fingerprints import fingerprints
from seller_platform.warehouse.loads.history_start import extend_history
from seller_platform.warehouse.postgres.database import Database


@click.command()
@json_option
def demo(*, output: Output) -> None:
    """Connect to the sandbox, load all lists and costs, check the rows, and print a table.

    It uses the real parts: a service on a socket, OAuth over HTTP, PostgreSQL, a Dagster instance. Its files are in
    the folder `sandbox` of the home folder. It can be run again at any time.
    """
    with open_local_stack(read_settings().home, output) as stack:
        os.environ.update(stack.environment)
        with open_installation() as installation:
            connect_local_stack(installation, stack, output)
            synced = run_sync(installation, SliceOptions(full=True), output)
            problem = problem_of(synced) or _difference(installation, stack)
    report(output, synced, problem)
    output.say("Every row is stored exactly as the sandbox holds it.")
    output.say("Next: `seller-platform dev` to see it in Dagster, or the README for connecting a real service.")


def connect_local_stack(installation: Installation, stack: LocalStack, output: Output) -> Sequence[KnownAccount]:
    """Authorise as the sandbox's demo user, discover the accounts, and return them.

    History begins with the sandbox's first month, also where an earlier sandbox began later.
    """
    extend_history(installation.database, installation.settings.history_start)

    def show(url: str) -> None:
        threading.Thread(target=approve, args=(url, USER_EMAIL, stack.credentials.password), daemon=True).start()

    upstream = Upstream.of(installation.settings)
    with output.progress("Authorising", None):
        return connect_upstream(installation, upstream, DEFAULT_CONNECTION, show=show, timeout_seconds=60)


def approve(url: str, email: str, password: str) -> None:
    """Log in and approve an authorisation over HTTP, as a user does in a browser.

    Raises:
        AuthorizationDeniedError: The pages did not lead back to the callback.
    """
    with httpx.Client(follow_redirects=True, timeout=30) as browser:
        page = browser.get(url)
        for answers in ({"email": email, "password": password}, {"decision": "approve"}):
            form = re.search(r"<form[^>]*>.*?</form>", page.text, re.DOTALL)
            if form is None:
                raise AuthorizationDeniedError(
                    f"there is no form on the page at {page.url.path} (HTTP {page.status_code})"
                )
            action = re.search(r'<form[^>]*\baction="([^"]*)"', form[0])
            hidden = dict(re.findall(r'<input[^>]*type="hidden"[^>]*name="([^"]*)"[^>]*value="([^"]*)"', form[0]))
            fields = {name: unescape(value) for name, value in hidden.items()} | answers
            page = browser.post(urljoin(str(page.url), unescape(action[1]) if action else ""), data=fields)
        if not page.is_success:
            raise AuthorizationDeniedError(f"the approval ended with HTTP {page.status_code}")


def _difference(installation: Installation, stack: LocalStack) -> CheckFailedError | None:
    """Compare every row with the sandbox's; return an error that names different tables."""
    datasets = [dataset for dataset in REFRESHED if not dataset.is_computed]
    with Database(stack.sandbox_url) as sandbox:
        expected, stored = fingerprints(sandbox, datasets), fingerprints(installation.database, datasets)
    different = [
        f"{dataset} of {account}"
        for dataset, account in sorted({*expected, *stored})
        if expected.get((dataset, account)) != stored.get((dataset, account))
    ]
    if not different:
        return None
    return CheckFailedError(
        f"these tables are not equal to the sandbox's: {', '.join(different)}. That is a bug of this program; report it"
    )
