"""Compares the answers of source and replica to the same queries, as multisets of rows."""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

from seller_platform.client.endpoints.accounts import fetch_accounts
from seller_platform.client.endpoints.cost_periods import read_cost_periods
from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.concurrency import in_threads
from seller_platform.client.lists.slice_reader import read_slice
from seller_platform.contract import Column, Kind
from seller_platform.contract.cost_periods import AMOUNT, COST_ELEMENT, COST_ELEMENTS, CURRENCY, NOTES, PROVIDER
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.contract.wire import REPLICA
from seller_platform.errors import RequestRefusedError, SellerPlatformError
from seller_platform.ingest.verification.queries import AccountQuery
from seller_platform.warehouse.loads.copy_format import RowDigest, row_hashes

QUERIES_AT_ONCE = 4
_ROWS_SHOWN = 5
_ELEMENT_FIELDS = (COST_ELEMENT, AMOUNT, CURRENCY, PROVIDER, NOTES)

Row = tuple[Any, ...]


class ComparisonResult(Enum):
    """The result of comparing two answers."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_KNOWN = "not known"
    FAILED = "failed"


@dataclass(frozen=True)
class Comparison:
    """How the answers to one query compare.

    Attributes:
        subject: A dataset, or `statistics`.
        account: The key of the account; for the list of accounts, the connection.
        asked: The query in words.
        verdict: Failed until the answers are compared.
        rows: The number of rows of the source.
        differences: The differences, a line each.
        not_known: The columns that a replica does not have, with the reason; they were not compared.
        error: Why a query was not answered.
    """

    subject: str
    account: str
    asked: str
    verdict: ComparisonResult = ComparisonResult.FAILED
    rows: int = 0
    seconds: float = 0
    differences: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()
    error: SellerPlatformError | None = None

    def judged(self, rows: int, differences: Sequence[str], not_known: Sequence[str]) -> "Comparison":
        """Return the comparison with its verdict: whether there are differences."""
        verdict = ComparisonResult.DIFFERENT if differences else ComparisonResult.EQUAL
        return replace(self, verdict=verdict, rows=rows, differences=tuple(differences), not_known=tuple(not_known))


def verify_each(queries: Iterable[AccountQuery], source: SellerApi, replica: SellerApi) -> Iterator[Comparison]:
    """Send the queries to both, several in parallel, and return the comparisons in their order.

    A query that fails does not stop the others.
    """
    return in_threads(lambda query: verify(query, source, replica), queries, QUERIES_AT_ONCE)


def verify(query: AccountQuery, source: SellerApi, replica: SellerApi) -> Comparison:
    """Send one query to both, and compare the answers."""
    comparison = Comparison(query.dataset.name, query.account.key, str(query))
    return _judged(comparison, lambda: _judge(comparison, query, source, replica))


def verify_accounts(connection: str, source: SellerApi, replica: SellerApi) -> Comparison:
    """Compare the lists of accounts."""
    comparison = Comparison(ACCOUNTS.name, connection, ACCOUNTS.name)

    def judge() -> Comparison:
        listed = [fetch_accounts(api, connection) for api in (source, replica)]
        rows = [Counter(listing.rows) for listing in listed]
        differences = _row_differences(ACCOUNTS.columns, *rows)
        return comparison.judged(rows[0].total(), differences, _unnamed_fields(listed[0].facts))

    return _judged(comparison, judge)


def _judged(comparison: Comparison, judge: Callable[[], Comparison]) -> Comparison:
    """Return the comparison as it is judged, with its error and its time."""
    began = time.perf_counter()
    try:
        judged = judge()
    except SellerPlatformError as error:
        judged = replace(comparison, error=error)
    return replace(judged, seconds=time.perf_counter() - began)


def _judge(comparison: Comparison, query: AccountQuery, source: SellerApi, replica: SellerApi) -> Comparison:
    if query.unanswerable is not None:
        return replace(comparison, verdict=ComparisonResult.NOT_KNOWN, not_known=(query.unanswerable,))
    of_replica, of_source = _ReadAnswer(query), _ReadAnswer(query)
    source_facts = _read(query, source, of_source)
    columns: dict[str, list[str]] = defaultdict(list)
    for name, reason in query.ignored.items():
        columns[reason].append(name)
    unknown = [*(f"{', '.join(names)}: {reason}" for reason, names in columns.items()), *_unnamed_fields(source_facts)]
    try:
        replica_facts = _read(query, replica, of_replica)
    except RequestRefusedError as error:
        if error.reason == REPLICA:
            return replace(comparison, verdict=ComparisonResult.NOT_KNOWN, not_known=(_refusal(error),))
        return comparison.judged(of_source.count, [f"the replica refused: {_refusal(error)}"], [])
    if of_replica.digest == of_source.digest and replica_facts.verdict is not CountVerdict.MISMATCH:
        return comparison.judged(of_source.count, [], unknown)
    # Both are read again with their rows. A list may have changed in between: the second answers can be equal.
    of_source, of_replica = _ReadAnswer(query, keeps_rows=True), _ReadAnswer(query, keeps_rows=True)
    _read(query, source, of_source)
    replica_facts = _read(query, replica, of_replica)
    differences = []
    if of_replica.digest != of_source.digest:
        differences += [
            _totals(query, of_source, of_replica),
            *_row_differences(of_source.columns, of_source.rows, of_replica.rows),
        ]
    if replica_facts.verdict is CountVerdict.MISMATCH:
        differences.append(f"the replica announces {replica_facts.announced} rows and lists {of_replica.count}")
    return comparison.judged(of_source.count, differences, unknown)


def _read(query: AccountQuery, api: SellerApi, answer: "_ReadAnswer") -> LoadFacts:
    account, day = query.account.account, query.snapshot_day
    if query.skus is not None and day is not None:
        return read_cost_periods(api, account, query.skus, day, answer)
    return read_slice(api, query.dataset, account, query.window, day, answer)


class _ReadAnswer:
    """Digests the rows of an answer in one spelling, and keeps them on request."""

    def __init__(self, query: AccountQuery, *, keeps_rows: bool = False) -> None:
        dataset = query.dataset
        ignored = set(query.ignored)
        self.columns = (*dataset.columns, *dataset.tags)
        self._spell = [_speller(column, ignored) for column in dataset.columns]
        self._keeps_rows = keeps_rows
        self.restart()

    @property
    def count(self) -> int:
        return self._digest.count

    @property
    def digest(self) -> bytes:
        return self._digest.value

    def restart(self) -> None:
        """Discard all rows."""
        self._digest = RowDigest()
        self.rows: Counter[Row] = Counter()

    def write(
        self,
        rows: Sequence[Row],
        *,
        tags: Sequence[str | None],
        extras: Mapping[int, str],  # noqa: ARG002  # the protocol's signature
        page: int,  # noqa: ARG002  # the protocol's signature
    ) -> None:
        """Add the rows of one page; fields that the contract does not name are ignored."""
        spelled = [(*(spell(value) for spell, value in zip(self._spell, row, strict=False)), *tags) for row in rows]
        self._digest.add(row_hashes(map(repr, spelled)))
        if self._keeps_rows:
            self.rows.update(spelled)

    def total(self, position: int) -> Decimal:
        """Return the sum of the amounts in a column."""
        return sum(
            (Decimal(row[position]) * times for row, times in self.rows.items() if row[position]), start=Decimal()
        )


def _speller(column: Column, ignored: set[str]) -> Callable[[Any], Any]:
    """Return the function that brings values of a column into one spelling, without ignored fields."""
    if column.name in ignored:
        return lambda _: None
    if column.name == COST_ELEMENTS:
        return _elements
    match column.kind:
        case Kind.MONEY | Kind.NUMBER:
            return _plain_number
        case Kind.TIMESTAMP:
            return lambda text: text and datetime.fromisoformat(text).astimezone(UTC).isoformat()
        case Kind.JSON:
            fields = {name.partition(".")[2] for name in ignored if name.startswith(f"{column.name}.")}
            return lambda text: _document(text, fields)
    return lambda value: value


def _plain_number(value: Decimal | None) -> str | None:
    if value is None:
        return None
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _document(text: str | None, ignored: set[str]) -> str | None:
    if text is None:
        return None
    document = _parsed(text)
    if isinstance(document, dict):
        document = {name: value for name, value in document.items() if name not in ignored}
    return json.dumps(document, sort_keys=True, ensure_ascii=False)


def _elements(text: str | None) -> str | None:
    """Return cost elements in one spelling, without their order and without empty texts."""
    if text is None:
        return None
    elements = [
        {name: value for name in _ELEMENT_FIELDS if (value := element.get(name)) not in (None, "")}
        for element in _parsed(text)
    ]
    return json.dumps(sorted(elements, key=repr), ensure_ascii=False)


def _parsed(text: str) -> Any:
    return json.loads(text, parse_float=lambda number: _plain_number(Decimal(number)), parse_int=str)


def _unnamed_fields(facts: LoadFacts) -> list[str]:
    names = facts.notes.get("unknown_fields")
    return [f"{', '.join(names)}: fields that the contract does not name"] if isinstance(names, list) else []


def _refusal(error: RequestRefusedError) -> str:
    return "; ".join(f"{name} {' '.join(texts)}" for name, texts in error.parameters.items()) or str(error)


def _totals(query: AccountQuery, of_source: _ReadAnswer, of_replica: _ReadAnswer) -> str:
    """Return the row counts of both answers, and the sums that differ."""
    totals = [f"{of_source.count} rows at the source, {of_replica.count} at the replica"]
    for position, column in enumerate(query.dataset.columns):
        if (
            column.kind is Kind.MONEY
            and (sums := (of_source.total(position), of_replica.total(position)))[0] != sums[1]
        ):
            totals.append(f"{column.name} {sums[0]} and {sums[1]}")
    return "; ".join(totals)


def _row_differences(columns: Sequence[Column], of_source: Counter[Row], of_replica: Counter[Row]) -> tuple[str, ...]:
    """Return lines for the first differing rows, and one that counts the others."""
    keys = [position for position, column in enumerate(columns) if column.key] or list(range(len(columns)))
    by_key: dict[Row, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((of_source - of_replica, of_replica - of_source)):
        for row in rows:
            by_key[tuple(row[position] for position in keys)][side].append(row)
    lines = []
    for key in sorted(by_key, key=repr):
        missing, surplus = by_key[key]
        named = ", ".join(f"{columns[position].name} {row}" for position, row in zip(keys, key, strict=True) if row)
        if len(missing) == len(surplus) == 1:
            changes = (
                f"{column.name} {source} at the source, {replica} at the replica"
                for column, source, replica in zip(columns, missing[0], surplus[0], strict=False)
                if source != replica
            )
            lines.append(f"{named}: {', '.join(changes)}")
        else:
            lines += [
                f"{named}: {of_source[row]} at the source, {of_replica[row]} at the replica"
                for row in missing + surplus
            ]
    more = len(lines) - _ROWS_SHOWN
    return (*lines[:_ROWS_SHOWN], f"and {more} rows more") if more > 0 else tuple(lines)
