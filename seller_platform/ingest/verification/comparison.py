"""Compares the answers of source and replica to the same queries, as multisets of rows."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from seller_platform.client.endpoints.accounts import fetch_accounts
from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.concurrency import in_threads
from seller_platform.contract import Column, Kind, Window
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.contract.wire import REPLICA
from seller_platform.counts import count_of
from seller_platform.errors import RequestRefusedError, SellerPlatformError
from seller_platform.ingest.verification.answers import ReadAnswer, Row, count_at_source, read_answer
from seller_platform.ingest.verification.queries import AccountQuery

QUERIES_AT_ONCE = 4
_ROWS_SHOWN = 5
_NOT_OFFERED = (404, 405, 501)
# A replica refuses these parameters where they need facts that no list contains: parents and exchange rates.
_IN_NO_LIST = frozenset({"group_by", "parent_asin", "currency"})


class ComparisonResult(Enum):
    """The result of comparing two answers."""

    EQUAL = "equal"
    DIFFERENT = "different"
    COMPUTED = "computed differently"
    ABSENT = "absent"
    NOT_KNOWN = "not known"
    FAILED = "failed"


@dataclass(frozen=True)
class Comparison:
    """How the answers to one query compare.

    Attributes:
        subject: A dataset, or `statistics`.
        account: The key of the account; for the list of accounts, the connection.
        asked: The query in words.
        window: The days that were compared, where the list has any.
        verdict: Failed until the answers are compared.
        rows: The number of rows of the source.
        differences: The differences, a line each; of absent rows, why they are absent.
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
    window: Window | None = None

    def judged(
        self, rows: int, differences: Sequence[str], not_known: Sequence[str], *, is_computed: bool = False
    ) -> "Comparison":
        """Return the comparison with its verdict: whether there are differences.

        Args:
            is_computed: Whether the replica computed its rows.
        """
        unequal = ComparisonResult.COMPUTED if is_computed else ComparisonResult.DIFFERENT
        verdict = unequal if differences else ComparisonResult.EQUAL
        return replace(self, verdict=verdict, rows=rows, differences=tuple(differences), not_known=tuple(not_known))

    def absent(self, rows: int, reason: str) -> "Comparison":
        """Return the comparison with the verdict on rows that the replica never read.

        Where the source has none, nothing is absent.
        """
        if not rows:
            return self.unknown(f"{reason}; the source has no rows of it")
        lines = (f"{reason}; the source has {rows} row{'s' if rows > 1 else ''} of it",)
        return replace(self, verdict=ComparisonResult.ABSENT, rows=rows, differences=lines)

    def unknown(self, reason: str) -> "Comparison":
        """Return the comparison with the verdict that a replica cannot know the answer."""
        return replace(self, verdict=ComparisonResult.NOT_KNOWN, not_known=(reason,))


def verify_each(queries: Iterable[AccountQuery], source: SellerApi, replica: SellerApi) -> Iterator[Comparison]:
    """Send the queries to both, several in parallel, and return the comparisons in their order.

    A query that fails does not stop the others.
    """
    return in_threads(lambda query: verify(query, source, replica), queries, QUERIES_AT_ONCE)


def verify(query: AccountQuery, source: SellerApi, replica: SellerApi) -> Comparison:
    """Send one query to both, and compare the answers."""
    comparison = Comparison(query.dataset.name, query.account.key, str(query), window=query.window)
    if query.unanswerable is not None:
        return comparison.unknown(query.unanswerable)

    def judge() -> Comparison:
        try:
            if query.absent is not None:
                return comparison.absent(count_at_source(query, source), query.absent)
            return _judge(comparison, query, source, replica)
        except RequestRefusedError as error:
            if query.is_optional and error.status in _NOT_OFFERED:
                return comparison.unknown(f"the source does not offer it (status {error.status})")
            raise

    return _judged(comparison, judge)


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
    of_replica, of_source = ReadAnswer(query), ReadAnswer(query)
    source_facts = read_answer(query, source, of_source)
    columns: dict[str, list[str]] = defaultdict(list)
    for name, reason in query.ignored.items():
        columns[reason].append(name)
    unknown = [*(f"{', '.join(names)}: {reason}" for reason, names in columns.items()), *_unnamed_fields(source_facts)]
    try:
        replica_facts = read_answer(query, replica, of_replica)
    except RequestRefusedError as error:
        if error.reason != REPLICA:
            return comparison.judged(of_source.count, [f"the replica refused: {_refusal(error)}"], [])
        if _IN_NO_LIST.intersection(error.parameters):
            return comparison.unknown(_refusal(error))
        return comparison.absent(of_source.count, _refusal(error))
    if of_replica.digest == of_source.digest and replica_facts.verdict is not CountVerdict.MISMATCH:
        return comparison.judged(of_source.count, [], unknown)
    # Both are read again with their rows. A list may have changed in between: the second answers can be equal.
    of_source, of_replica = ReadAnswer(query, keeps_rows=True), ReadAnswer(query, keeps_rows=True)
    read_answer(query, source, of_source)
    replica_facts = read_answer(query, replica, of_replica)
    differences = []
    if of_replica.digest != of_source.digest:
        differences += [
            _totals(query, of_source, of_replica),
            *_row_differences(of_source.columns, of_source.rows, of_replica.rows),
        ]
    if replica_facts.verdict is CountVerdict.MISMATCH:
        differences.append(
            f"the replica announces {count_of(replica_facts.announced or 0, 'row')} and lists {of_replica.count}"
        )
    is_computed = replica_facts.notes.get("computed_by") == REPLICA
    return comparison.judged(of_source.count, differences, unknown, is_computed=is_computed)


def _unnamed_fields(facts: LoadFacts) -> list[str]:
    names = facts.notes.get("unknown_fields")
    return [f"{', '.join(names)}: fields that the contract does not name"] if isinstance(names, list) else []


def _refusal(error: RequestRefusedError) -> str:
    return "; ".join(f"{name} {' '.join(texts)}" for name, texts in error.parameters.items()) or str(error)


def _totals(query: AccountQuery, of_source: ReadAnswer, of_replica: ReadAnswer) -> str:
    """Return the row counts of both answers, and the sums that differ."""
    totals = [f"{count_of(of_source.count, 'row')} at the source, {of_replica.count} at the replica"]
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
    return (*lines[:_ROWS_SHOWN], f"and {count_of(more, 'row')} more") if more > 0 else tuple(lines)
