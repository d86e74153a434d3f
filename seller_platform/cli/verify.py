"""`seller-platform verify`: source and replica are asked the same questions, and their answers compared."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import click

from seller_platform.cli.installation import Installation, open_installation
from seller_platform.cli.output import Output, fail, json_option
from seller_platform.cli.processes import await_answer, free_port, running
from seller_platform.cli.sync import Month, SliceOptions, datasets_named, keys_of, months_of
from seller_platform.client.http.api import SellerApi
from seller_platform.client.oauth.tokens import TokenAuth
from seller_platform.contract import LISTS
from seller_platform.contract.datasets.costs import COST_PERIODS, COSTS
from seller_platform.contract.wire import SERVICE_STATUS
from seller_platform.errors import CheckFailedError, NotConnectedError
from seller_platform.ingest.connections.upstream import open_api, upstream_of
from seller_platform.ingest.verification.comparison import Comparison, ComparisonResult, verify_accounts, verify_each
from seller_platform.ingest.verification.queries import NOT_ASKED, Question, StoredDays, questions_about
from seller_platform.service.oauth.temporary_access import temporary_access
from seller_platform.warehouse.connections.accounts import KnownAccount, accounts, connections
from seller_platform.warehouse.loads.products import accounts_with_products, skus_of_account
from seller_platform.warehouse.loads.receipts import latest_receipts

STATISTICS, VELOCITY = "statistics", "velocity"
_COLUMNS = ("questions", "rows", "equal", "different", "not known", "failed", "seconds")


@click.command()
@click.option("--account", "keys", multiple=True, metavar="KEY", help="Only this account; may be repeated.")
@click.option(
    "--dataset", "names", multiple=True, metavar="NAME", help="Only this dataset, or `statistics`, or `velocity`."
)
@click.option("--from", "first_month", type=Month(), help="First month to compare.")
@click.option("--to", "last_month", type=Month(), help="Last month to compare.")
@json_option
def verify(
    *, keys: tuple[str, ...], names: tuple[str, ...], first_month: date | None, last_month: date | None, as_json: bool
) -> None:
    """Ask source and replica the same questions and compare the answers.

    The source is the API that is connected; the replica is our service over the warehouse, started for the purpose.
    Compared is what the receipts say is stored: every list, account and month, the cost periods of every product, the
    inventory by the velocity of the newest days, and the statistics in every view. What is not asked is named.
    """
    output = Output(as_json=as_json)
    selection = SliceOptions(keys or None, names or None, first_month, last_month)
    with open_installation() as place:
        findings = run_verification(place, selection, output)
    report(output, findings)


def run_verification(place: Installation, selection: SliceOptions, output: Output) -> list[Comparison]:
    """Ask what is selected of both, and return the findings.

    Raises:
        NotConnectedError: Nobody has authorised yet.
        RequestError: The selection names something that does not exist, or months in the wrong order.
        ServiceStartError: The replica does not come up.
    """
    chosen = keys_of(place, selection.accounts)
    named = connections(place.database)
    if not named:
        raise NotConnectedError
    ask = _asking(place, selection)
    findings: list[Comparison] = []
    with open_replica(place) as base_url:
        for connection in named:
            known = [each for each in accounts(place.database) if each.connection == connection.name]
            questions = [question for each in known if each.key in chosen for question in ask(each)]
            upstream = upstream_of(connection.name, place.settings, place.database, place.box)
            with (
                open_api(upstream, connection.name, place.database, place.box, place.settings.home) as source,
                temporary_access(place.database, [each.key for each in known]) as token,
                SellerApi(base_url, auth=TokenAuth(token)) as replica,
                output.progress(f"Comparing {connection.name}", len(questions)) as bar,
            ):
                if selection.accounts is None and selection.datasets is None:
                    findings.append(verify_accounts(connection.name, source, replica))
                for done, finding in enumerate(verify_each(questions, source, replica), start=1):
                    findings.append(finding)
                    bar.show(done)
    return findings


@contextmanager
def open_replica(place: Installation) -> Iterator[str]:
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


def report(output: Output, findings: Sequence[Comparison]) -> None:
    """Print the table dataset x account and what differs; end the command with an error unless all is equal."""
    rows, not_known = _rows(findings), _not_known(findings)
    differences = [
        {"dataset": each.subject, "account": each.account, "asked": each.asked, "what": line}
        for each in findings
        for line in each.differences
    ]
    document: dict[str, Any] = {
        "verified": rows,
        "differences": differences,
        "not_known": not_known,
        "not_asked": dict(NOT_ASKED),
    }
    if not output.as_json:
        output.table_by_account("Source and replica", _COLUMNS, rows)
        for each in not_known:
            whose = each["accounts"][0] if len(each["accounts"]) == 1 else f"{len(each['accounts'])} accounts"
            output.line(f"not known to the replica: {each['dataset']} of {whose}: {each['what']}")
        for what, reason in NOT_ASKED.items():
            output.line(f"not asked: {what}: {reason}")
        for told in differences:
            output.line(f"different: {told['dataset']} of {told['account']} ({told['asked']}): {told['what']}")
    different = [finding for finding in findings if finding.verdict is ComparisonResult.DIFFERENT]
    error = next((finding.error for finding in findings if finding.error is not None), None)
    if different:
        named = "; ".join(dict.fromkeys(f"{each.subject} of {each.account}" for each in different))
        error = CheckFailedError(
            f"source and replica differ: {named}. Read those months again with `seller-platform sync --from ... "
            "--to ...`, for the source may have changed since; then run `seller-platform verify` again"
        )
    if error is not None:
        fail(error, as_json=output.as_json, document=document)
    if output.as_json:
        output.document(document)
    output.say("Source and replica give equal answers to everything that both know.")


def _asking(place: Installation, selection: SliceOptions) -> Callable[[KnownAccount], Iterator[Question]]:
    """Return what yields the questions about an account."""
    named = datasets_named(selection.datasets, beside=COSTS, words=(STATISTICS, VELOCITY))
    datasets = named if selection.datasets else (*LISTS, *COSTS)
    months = months_of(selection, place.settings.history_start)
    coverage = StoredDays(latest_receipts(place.database))
    with_products = accounts_with_products(place.database)

    def ask(known: KnownAccount) -> Iterator[Question]:
        return questions_about(
            known,
            datasets,
            months,
            coverage,
            today=datetime.now(ZoneInfo(known.account.timezone)).date(),
            skus=skus_of_account(place.database, known.key) if COST_PERIODS in datasets else (),
            has_offers=known.key in with_products,
            has_velocity=selection.datasets is None or VELOCITY in selection.datasets,
            has_statistics=selection.datasets is None or STATISTICS in selection.datasets,
        )

    return ask


def _rows(findings: Sequence[Comparison]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[Comparison]] = defaultdict(list)
    for finding in findings:
        groups[(finding.subject, finding.account)].append(finding)
    return [
        {
            "dataset": dataset,
            "account": account,
            "questions": len(group),
            "rows": sum(finding.rows for finding in group),
            **{verdict.value: sum(finding.verdict is verdict for finding in group) for verdict in ComparisonResult},
            "seconds": round(sum(finding.seconds for finding in group), 2),
        }
        for (dataset, account), group in groups.items()
    ]


def _not_known(findings: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Return each thing that was not compared once, with the accounts that it concerns."""
    concerned: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for finding in findings:
        for what in finding.not_known:
            asked = concerned[(finding.subject, what)]
            asked[finding.account] = asked.get(finding.account, 0) + 1
    return [
        {"dataset": dataset, "what": what, "accounts": list(found), "questions": sum(found.values())}
        for (dataset, what), found in concerned.items()
    ]
