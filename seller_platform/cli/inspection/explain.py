"""`seller-platform explain`: the request, page, time and run of a stored row."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import click

from seller_platform.cli.installation import open_stored_installation
from seller_platform.cli.output import Output, json_option, printable
from seller_platform.cli.terminal.layout import TableColumn
from seller_platform.contract import DATASETS, Dataset, dataset_named
from seller_platform.counts import count_of
from seller_platform.errors import UnknownDatasetError
from seller_platform.settings import Settings
from seller_platform.warehouse.connections.accounts import account_named
from seller_platform.warehouse.loads.provenance import Provenance, conditions_of
from seller_platform.warehouse.loads.provenance import explain as find_origins
from seller_platform.warehouse.loads.slices import Receipt

_FORMER = ("stored from load", "until load", "differed in")
_LOADS = (
    "load",
    "finished (UTC)",
    TableColumn("window", rank=2),
    TableColumn("rows", rank=3),
    "verdict",
    TableColumn("changed", rank=1),
    "restated",
)


@click.command()
@click.argument("dataset")
@click.argument("key", nargs=-1, required=True)
@click.option("--account", metavar="NAME", help="Of one account only, by its key or title.")
@json_option
def explain(*, dataset: str, key: tuple[str, ...], account: str | None, output: Output) -> None:
    """Show the source of a stored row: request, page, time, run and restatements.

    KEY is the row's key, such as the id of an order, followed by the values of further key columns. Write the value of
    another column as column=value. The newest snapshot is searched, unless local_day=DAY names another.

    \b
    seller-platform explain orders 028-1234567-1234567
    seller-platform explain transactions order_id=028-1234567-1234567
    seller-platform explain inventory SKU-1 local_day=2026-03-01 --account A1B2.US
    """  # noqa: D301  # click reads the backspace, which keeps the lines of a paragraph apart
    declared = declared_dataset(dataset)
    conditions = conditions_of(declared, key)
    with open_stored_installation() as installation, output.progress(f"Looking for the row in {declared.table}"):
        key_of_account = None if account is None else account_named(installation.database, account).key
        count, origins = find_origins(installation.database, declared, conditions, account=key_of_account)
        documents = [_document(origin, installation.settings) for origin in origins]
    output.document({"asset": f"seller/{declared.name}", "table": declared.table, "found": count, "rows": documents})
    for number, row in enumerate(documents, start=1):
        extra = {f"{name} (not in the contract)": value for name, value in (row["extra"] or {}).items()}
        slice_facts: dict[str, Any] = {
            name: row[name] for name in ("account", "local_day", "connection") if name in row
        }
        _list(output, f"{declared.table}, row {number} of {count}", {**slice_facts, **row["row"], **extra})
        _list(output, "It came from", _origin(row))
        if row["former_versions"]:
            output.table("Its former versions", _FORMER, [_former(version) for version in row["former_versions"]])
        output.table("Every load of its day", _LOADS, [_columns(load) for load in row["history"]])
    if count > len(documents):
        output.say(f"{count_of(count - len(documents), 'more row', 'matches')}; give more of the key.")


def declared_dataset(name: str) -> Dataset:
    """Return the dataset of a name, which may be written as its table or its asset.

    Raises:
        UnknownDatasetError: There is none.
    """
    names = [declared.name for declared in DATASETS]
    bare = name.removeprefix("seller/").removeprefix("seller.")
    if bare not in names:
        raise UnknownDatasetError(bare, names)
    return dataset_named(bare)


def _document(origin: Provenance, settings: Settings) -> dict[str, Any]:
    receipt, request, run = origin.receipt, origin.request, None
    if receipt is not None and receipt.run_id is not None:
        path = f"/runs/{receipt.run_id}"
        unset = f"{path} of the Dagster UI (SELLER_PLATFORM_DAGSTER_URL is not set)"
        run = {"id": receipt.run_id, "open": f"{settings.dagster_url}{path}" if settings.dagster_url else unset}
    return {
        "row": dict(origin.row),
        "extra": origin.extra,
        "account": origin.account,
        origin.dataset.slice_column: str(origin.slice_value),
        "page": origin.page,
        "load_id": origin.load_id,
        "load": receipt and _load(receipt),
        "request": request
        and {
            "url": f"{request.url}?{urlencode(request.params)}" if request.params else request.url,
            "params": dict(request.params),
            "is_exact": request.is_exact,
        },
        "run": run,
        "first_load_id": origin.first_load_id,
        "confirmed_by_loads": [each.id for each in origin.confirmed],
        "confirmed_at": origin.confirmed[-1].finished_at.isoformat() if origin.confirmed else None,
        "former_versions": [
            {
                "load_id": version.load_id,
                "gone_load_id": version.gone_load_id,
                "row": dict(version.row),
                "differed": {name: value for name, value in version.row.items() if value != origin.row[name]},
            }
            for version in origin.former
        ],
        "history": [_load(each) for each in origin.history],
    }


def _load(receipt: Receipt) -> dict[str, Any]:
    return {
        "id": receipt.id,
        "window": str(receipt.window),
        "verdict": receipt.verdict,
        "announced": receipt.announced,
        "rows": receipt.rows,
        "pages": receipt.pages,
        "requests": receipt.requests,
        "changed": receipt.changed,
        "restatement": receipt.restatement,
        "notes": receipt.notes,
        "digest": receipt.digest.hex(),
        "started_at": receipt.started_at.isoformat(),
        "finished_at": receipt.finished_at.isoformat(),
        "run_id": receipt.run_id,
    }


def _list(output: Output, title: str, facts: Mapping[str, object]) -> None:
    """Print facts in full, one a line; a table would cut them off."""
    width = max(map(len, facts))
    output.line(title)
    for name, value in facts.items():
        text = "–" if value is None else str(value)
        output.line(f"  {name:<{width}}  {printable(text)}")
    output.line("")


def _origin(document: Mapping[str, Any]) -> dict[str, object]:
    load, request, run = document["load"], document["request"], document["run"]
    if load is None:
        return {"load": f"{document['load_id']}, whose receipt was pruned", "page": f"{document['page']} of the load"}
    about = "" if request["is_exact"] else " (asks for the days of the rows on that page: the list was read in parts)"
    confirmed = document["confirmed_by_loads"]
    counts = f"{count_of(load['rows'], 'row')}, {count_of(load['requests'], 'request')}"
    first = document["first_load_id"]
    return {
        "request": f"GET {request['url']}{about}",
        "page": f"{document['page']} of the {load['pages']} that the load read of all its lists",
        "load": f"{load['id']}: {load['window']}, {load['verdict']}, {counts}",
        "started": load["started_at"],
        "finished": load["finished_at"],
        "digest": load["digest"],
        "run": run["id"] if run else "none: no Dagster run made it",
        "open the run": run["open"] if run else None,
        "first came": "with this load" if first == document["load_id"] else _first(first, document["history"]),
        "last confirmed": f"{document['confirmed_at']}, by load {confirmed[-1]}" if confirmed else "by this load",
        "confirmed by loads": ", ".join(map(str, confirmed)) or "none",
    }


def _first(load_id: int, history: Sequence[Mapping[str, Any]]) -> str:
    finished = [load["finished_at"] for load in history if load["id"] == load_id]
    at = f" at {finished[0]}" if finished else ""
    return f"in another version, with load {load_id}{at}"


def _former(version: Mapping[str, Any]) -> tuple[object, ...]:
    differed = "; ".join(f"{name}: {value}" for name, value in version["differed"].items())
    return str(version["load_id"]), str(version["gone_load_id"]), differed or "nothing"


def _columns(load: Mapping[str, Any]) -> tuple[object, ...]:
    changes = "; ".join(
        f"{name} {change['before']} -> {change['after']}" for name, change in (load["restatement"] or {}).items()
    )
    finished = load["finished_at"][:19].replace("T", " ")
    # The id is text: a number would be printed with separators of thousands.
    return str(load["id"]), finished, load["window"], load["rows"], load["verdict"], load["changed"], changes or None
