"""A model of the upstream: lists that change, reports, and a token endpoint whose refresh tokens work once."""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from typing import cast
from urllib.parse import parse_qs
from zoneinfo import ZoneInfo

import httpx

from seller_platform.contract import Account, Dataset, dataset_named
from seller_platform.contract.wire import ACCESS_TOKEN_SECONDS, USER_ACCOUNTS, USER_ME
from seller_platform_tests.simulation.clock import VirtualClock
from seller_platform_tests.simulation.reports import ReportUpstream

BASE_URL = "http://upstream"
ACCOUNT = Account(1, "Account", "DE", "EUR", "Europe/Berlin", "M1", "S1")
ZONES = ("Europe/Berlin", "Asia/Kolkata", "America/Los_Angeles", "Pacific/Auckland")
REDIRECT_URI = "http://localhost/callback"
CLIENT_ID, CLIENT_SECRET = "simulation", "secret"
DATED = (dataset_named("transactions"), dataset_named("orders"))
SNAPSHOT = dataset_named("inventory")
CHANNELS = ("platform", "non-platform")

Group = tuple[str, str]
"""The rows that one answer of the upstream holds: of a day, and of a sales channel where the list has one."""

_CHANGES = ("new", "new", "change", "change", "delete", "empty", "twin")
_CHANGES_MEANWHILE = ("shift", "shift", "shift", "change", "new", "delete")
"""While a list is read, the changes that leave its total as it is are the ones that matter."""

_AMOUNTS = ("amount", "order_total")
_REFRESH_DAYS = 30
_REPORT_TIME = timedelta(seconds=20)


@dataclass(frozen=True)
class Row:
    """A row of a list.

    Attributes:
        day: Its local day; of an undated list None.
        cells: The fields as sent.
        part: The sales channel, where the list has one.
    """

    day: date | None
    cells: Mapping[str, object]
    part: str | None = None

    @property
    def without_amounts(self) -> "Row":
        """The same row with amounts of zero."""
        return replace(self, cells={**self.cells, **{name: 0 for name in self.cells if name in _AMOUNTS}})

    def amount_in(self, name: str) -> float:
        """Return the amount of a cell; 0 where the row has none of this name."""
        return cast(float, self.cells.get(name, 0))

    def text(self, dataset: Dataset) -> str:
        """Return the row as text, to compare it with a stored one."""
        values = [self.cells.get(column.name) for column in dataset.columns] + [self.part] * len(dataset.tags)
        return "|".join("~" if value is None else str(value).replace("+00:00", "") for value in values)


def _changed(row: Row, **cells: object) -> list[Row]:
    return [replace(row, cells={**row.cells, **{name: value for name, value in cells.items() if name in row.cells}})]


LIES: Mapping[str, Callable[[Row, int], list[Row]]] = {
    "another account": lambda row, number: _changed(
        row, description=f"w{number}", platform_order_id=f"P{number}", amount=number + 0.5, order_total=number + 0.5
    ),
    "times 100": lambda row, _: _changed(row, **{each: int(100 * row.amount_in(each)) for each in _AMOUNTS}),
    "signs": lambda row, _: _changed(row, **{each: -row.amount_in(each) for each in _AMOUNTS}),
    "doubled": lambda row, _: [row, row],
    "nulls": lambda row, _: _changed(row, sku=None, description=None, product_name=None),
    "one row": lambda row, number: [row] * 9 if number == 0 else [],
    "half": lambda row, number: [row] if number % 2 else [],
    "a third less": lambda row, number: [row] if number % 3 else [],
    "a quarter less": lambda row, number: [row] if number % 4 else [],
    "a fifth less": lambda row, number: [row] if number % 5 else [],
    "a sixth less": lambda row, number: [row] if number % 6 else [],
    "a ninth less": lambda row, number: [row] if number % 9 else [],
    "a twelfth less": lambda row, number: [row] if number % 12 else [],
}
"""What wrong answers make of a row, given its number among those of the wrong days."""


@dataclass
class Tokens:
    """The tokens of one grant.

    Attributes:
        superseded_sent: How often a refresh token was sent whose successor the client had received.
        received: The generations that a client certainly has.
        is_kept: Whether a client has the first pair on its disk, after a new authorisation.
        is_refused: Whether a refresh was answered with invalid_grant.
    """

    generation: int = 1
    issued_at: float = 0.0
    is_revoked: bool = False
    superseded_sent: int = 0
    received: set[int] = field(default_factory=set)
    family: int = 1
    is_kept: bool = False
    is_refused: bool = False

    def name(self, kind: str, generation: int | None = None) -> str:
        return f"{kind}-{self.family}-{generation or self.generation}"


class UpstreamModel:
    """The state of the upstream, and its answers.

    Args:
        page_size: Rows of a full page, whatever is asked for.
        ages: The ages of the days that have rows at first.
        rows_of_an_age: How many rows each of them may have.
        obeys_filter: Whether it lists orders by sales channel, where it is asked to.

    Attributes:
        knows_channels: Whether it has the channels under the names that it is asked for; otherwise it lists no order.
        accounts: The numbers of the accounts that the user may read.
        requests: The requests of each day of UTC, except those for tokens.
        sent: When each of these was sent, be it in vain.
    """

    def __init__(
        self,
        clock: VirtualClock,
        random: Random,
        datasets: Sequence[Dataset],
        *,
        page_size: int,
        ages: Sequence[int],
        rows_of_an_age: Sequence[int] = (0, 1, 2, 2),
        obeys_filter: bool = True,
    ) -> None:
        self.clock, self.random, self.datasets, self.page_size = clock, random, datasets, page_size
        self.channels: Sequence[str | None] = CHANNELS if obeys_filter else (None,)
        self.knows_channels = obeys_filter or random.random() < 0.5
        self.accounts, self.requests = [1, 2, 3], Counter[date]()
        self.sent: list[datetime] = []
        self.account = replace(ACCOUNT, timezone=random.choice(ZONES))
        # Without totals, no client can tell a filter that is ignored from a list that changes.
        self.sends_totals, self._ages = random.random() < 0.8 or not obeys_filter, ages
        self._rows_of_an_age = rows_of_an_age
        self.tokens = Tokens(issued_at=clock.monotonic())
        self.rejects_former_access = random.random() < 0.5
        self.reports = ReportUpstream(clock=clock.now, keeps_keys=True, lasts=_REPORT_TIME, write=self._report_rows)
        self.versions: dict[str, list[tuple[Row, ...]]] = {}
        self._changed_at: dict[str, list[datetime]] = {dataset.name: [] for dataset in datasets}
        self.claims: dict[str, list[tuple[Row, ...]]] = {}
        self._grouped: dict[tuple[str, int], Mapping[Group, Counter[str]]] = {}
        self._serial = 0
        for dataset in datasets:
            self.versions[dataset.name] = [tuple(self._first_rows(dataset))]

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of the account."""
        return ZoneInfo(self.account.timezone)

    @property
    def today(self) -> date:
        """The local day of the account."""
        return self.clock.now().astimezone(self.zone).date()

    def rows(self, dataset: str) -> tuple[Row, ...]:
        """Return the rows of a list now."""
        return self.versions[dataset][-1]

    def version(self, dataset: Dataset, number: int) -> Mapping[Group, Counter[str]]:
        """Return the rows of a list as they were after a number of changes, by group."""
        key = (dataset.name, number)
        if key not in self._grouped:
            self._grouped[key] = grouped(dataset, self.versions[dataset.name][number])
        return self._grouped[key]

    def number_at(self, dataset: str, moment: datetime) -> int:
        """Return how often a list had changed before a moment."""
        return bisect_left(self._changed_at[dataset], moment)

    def _first_rows(self, dataset: Dataset) -> Iterator[Row]:
        if not dataset.is_dated:
            yield from (self._new_row(dataset, None) for _ in range(self.random.randint(2, 6)))
            return
        for age in self._ages:
            for _ in range(self.random.choice(self._rows_of_an_age)):
                yield self._new_row(dataset, self.today - timedelta(days=age))

    def _new_row(self, dataset: Dataset, day: date | None, part: str | None = None, at: time | None = None) -> Row:
        self._serial += 1
        text, amount = f"é{self._serial}", self._serial + 0.25
        if day is None:
            return Row(None, {"sku": f"S{self._serial}", "product_name": text, "afn_total_quantity": self._serial})
        of_day = at or time(self.random.choice((0, 12, 23)), self._serial % 60)
        moment = datetime.combine(day, of_day, self.zone).astimezone(UTC).isoformat()
        if dataset.name == "orders":
            cells = {"platform_order_id": f"O{self._serial}", "purchase_date": moment, "sku": "A", "product_name": text}
            return Row(day, cells | {"order_total": amount}, part or self.random.choice(self.channels))
        kind, sku = ("Refund", "Fee", "Fee")[self._serial % 3], f"A{self._serial % 4}"
        cells = {"posted_date": moment, "transaction_type": kind, "sku": sku, "description": text}
        return Row(day, cells | {"amount": amount})

    def change(self, random: Random, path: str | None = None) -> str:
        """Change one list as the contract allows: only days within the lookback change.

        Args:
            path: Where the list is read; by default any list changes.
        """
        dataset = random.choice(self.datasets) if path is None else self._dataset_at(path)
        rows, today = list(self.rows(dataset.name)), self.today
        near = [row for row in rows if row.day is None or row.day + timedelta(days=dataset.lookback_days) >= today]
        kind = random.choice(_CHANGES if path is None else _CHANGES_MEANWHILE)
        if kind == "empty" and random.random() < 0.7:
            kind = "change"
        chosen = random.choice(near) if near else None
        if chosen is None or kind == "new":
            kind = "new"
            day = None if not dataset.is_dated else today - timedelta(days=random.choice((0, 0, 1, 3)))
            rows.append(self._new_row(dataset, day))
        elif kind == "shift":
            first, last = min(near, key=_order), max(near, key=_order)
            rows.remove(first)
            rows.append(self._new_row(dataset, last.day, first.part, time(23, 59)))
        elif kind == "change":
            rows[rows.index(chosen)] = self._new_row(dataset, chosen.day, chosen.part)
        elif kind == "delete":
            rows.remove(chosen)
        elif kind == "twin" and dataset.name == "transactions" and rows.count(chosen) == 1:
            rows.append(chosen)  # of more equal rows whole pages are equal, which no client can tell from one page
        elif kind == "empty":
            rows = [row for row in rows if row not in near]
        if None in self.channels and {row.day for row in self.rows(dataset.name)} - {row.day for row in rows}:
            # Where the filter is ignored, no client can tell a row that was deleted from one of the other channel.
            rows = [*self.rows(dataset.name), self._new_row(dataset, today)]
        self.set_rows(dataset, rows)
        return f"{kind} {dataset.name}"

    def move(self, random: Random) -> str:
        """Give the account another time zone, under which its dated rows lie on other days."""
        others = [name for name in ZONES if name != self.account.timezone]
        self.account = replace(self.account, timezone=random.choice(others))
        for dataset in self.datasets:
            if dataset.is_dated:
                self.set_rows(dataset, [replace(row, day=self._day_of(row)) for row in self.rows(dataset.name)])
        return f"the account is in {self.zone}"

    def _day_of(self, row: Row) -> date:
        moment = next(str(row.cells[name]) for name in ("posted_date", "purchase_date") if name in row.cells)
        return datetime.fromisoformat(moment).astimezone(self.zone).date()

    def add_today(self) -> None:
        """Add a row of today to each dated list."""
        for dataset in self.datasets:
            if dataset.is_dated:
                self.set_rows(dataset, [*self.rows(dataset.name), self._new_row(dataset, self.today)])

    def set_rows(self, dataset: Dataset, rows: Sequence[Row]) -> None:
        """Replace the rows of a list."""
        self.versions[dataset.name].append(tuple(sorted(rows, key=_order)))
        self._changed_at[dataset.name].append(self.clock.now())

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Return the honest answer to a request."""
        path = request.url.path
        if path == "/oauth/token":
            return self._token(parse_qs(request.content.decode()))
        if not self._is_authorized(request.headers.get("Authorization", "")):
            return _json(401, {"status": "error", "message": "unauthorized"})
        asked = dict(request.url.params)
        if path == USER_ME:
            return _json(200, {"id": 1, "name": "A user"})
        if path == USER_ACCOUNTS:
            return _json(200, {"accounts": [self._listed_account(number) for number in self.accounts]})
        if path.startswith("/reports/"):
            status, headers, body = self.reports.answer(path, asked, {}, request.headers.get("Idempotency-Key"))
            return httpx.Response(status, content=body, headers={**headers, "Content-Type": "application/json"})
        return _json(200, self.page(path, asked))

    def page(self, path: str, asked: Mapping[str, str], rows: Sequence[Row] | None = None) -> dict[str, object]:
        """Return a page of a list.

        Args:
            rows: The rows of the whole list; by default those of now.
        """
        dataset = self._dataset_at(path)
        listed = self._chosen(self.rows(dataset.name) if rows is None else rows, asked)
        number, size = int(asked["page"]), self._page_size(asked)
        page = {"current_page": number, "data": [row.cells for row in listed[(number - 1) * size : number * size]]}
        if not self.sends_totals:
            return {**page, "per_page": size}
        return {**page, "total": len(listed), "per_page": size, "last_page": max(1, -(-len(listed) // size))}

    def _listed_account(self, number: int) -> dict[str, object]:
        account = self.account
        return {
            "id": number,
            "account_title": account.title if number == account.id else f"{account.title} {number}",
            "country_code": account.country_code,
            "currency_code": account.currency_code,
            "timezone": account.timezone,
            "marketplace": account.marketplace,
            "seller_id": f"S{number}",
        }

    def change_accounts(self, random: Random) -> str:
        """Let the user read other accounts. The first one stays."""
        self.accounts = [1, *sorted(random.sample(range(2, 6), random.randrange(4)))]
        return f"accounts {self.accounts}"

    def lied(self, path: str, lie: str, days: str) -> tuple[Row, ...]:
        """Return a list of which some days are wrong, as `Faults.lied_days` names them."""
        dataset, rows = self._dataset_at(path), self.rows_at(path)
        listed = sorted({row.day for row in rows if row.day})
        settled = [day for day in listed if day + timedelta(dataset.lookback_days) < self.today]
        recent = [day for day in listed if day not in settled]
        chosen = {"settled": settled, "two": settled[-2:], "recent": recent, "all": listed}[days]
        wrong = [row for row in rows if row.day not in chosen]
        for number, row in enumerate(each for each in rows if each.day in chosen):
            wrong += LIES[lie](row, number)
        return tuple(sorted(wrong, key=_order))

    def without_one(self, path: str, random: Random) -> tuple[Row, ...]:
        """Return the rows of a list without one of them."""
        rows = list(self.rows(self._dataset_at(path).name))
        if rows:
            del rows[random.randrange(len(rows))]
        return tuple(rows)

    def rows_at(self, path: str) -> tuple[Row, ...]:
        """Return the rows of the list at a path."""
        return self.rows(self._dataset_at(path).name)

    def claim(self, path: str, rows: Sequence[Row]) -> Sequence[Row]:
        """Remember rows that are sent as the list, although they are not."""
        self.claims.setdefault(self._dataset_at(path).name, []).append(tuple(rows))
        return rows

    def claim_page(self, path: str, asked: Mapping[str, str], rows: Sequence[Row]) -> None:
        """Remember the list that a client reads if one page is that of other rows."""
        listed, others = (self._chosen(each, asked) for each in (self.rows_at(path), rows))
        size = self._page_size(asked)
        begin = (int(asked["page"]) - 1) * size
        sent = others[begin : begin + size]
        rest = listed[begin + size :] if len(sent) == size else []
        self.claim(path, [*listed[:begin], *sent, *rest])

    def listed(self, path: str, asked: Mapping[str, str]) -> tuple[Row, ...]:
        """Return the rows on a page."""
        rows = self._chosen(self.rows_at(path), asked)
        number, size = int(asked["page"]), self._page_size(asked)
        return tuple(rows[(number - 1) * size : number * size])

    def _chosen(self, rows: Sequence[Row], asked: Mapping[str, str]) -> list[Row]:
        """Return the rows of a list that are asked for."""
        channel = asked.get("sales_channel")
        if channel is not None and not self.knows_channels:
            return []
        return [
            row
            for row in rows
            if (row.day is None or asked["start_date"] <= row.day.isoformat() <= asked["end_date"])
            and (row.part is None or channel in {None, row.part})
        ]

    def is_sensitive(self, path: str, asked: Mapping[str, str]) -> bool:
        """Whether a change right after this page may escape a client: more pages of a day follow, or other channels."""
        if len(self.channels) == 1:
            return True
        is_of_a_day = asked.get("start_date") == asked.get("end_date")
        return is_of_a_day and int(asked["page"]) * self._page_size(asked) < len(
            self._chosen(self.rows_at(path), asked)
        )

    def _page_size(self, asked: Mapping[str, str]) -> int:
        return min(self.page_size, int(asked.get("per_page", "2000")))

    def _dataset_at(self, path: str) -> Dataset:
        return next(each for each in self.datasets if each.path == path)

    def revoke(self) -> None:
        """End the grant, as a user does who withdraws the access."""
        self.tokens.is_revoked = True

    def _is_authorized(self, header: str) -> bool:
        tokens, now = self.tokens, self.clock.monotonic()
        if tokens.is_revoked:
            return False
        if header == f"Bearer {tokens.name('access')}":
            return now < tokens.issued_at + ACCESS_TOKEN_SECONDS
        former = f"Bearer {tokens.name('access', tokens.generation - 1)}"
        return not self.rejects_former_access and tokens.generation > 1 and header == former

    def _token(self, form: Mapping[str, Sequence[str]]) -> httpx.Response:
        tokens, sent = self.tokens, form["refresh_token"][0]
        is_current = sent == tokens.name("refresh")
        if not is_current:
            if sent.startswith(f"refresh-{tokens.family}-"):
                later = range(int(sent.rpartition("-")[2]) + 1, tokens.generation + 1)
                tokens.superseded_sent += any(each in tokens.received for each in later)
                tokens.is_revoked = tokens.is_refused = True
            return _json(400, {"error": "invalid_grant"})
        if tokens.is_revoked or self.clock.monotonic() > tokens.issued_at + _REFRESH_DAYS * 86_400:
            tokens.is_refused = True
            return _json(400, {"error": "invalid_grant"})
        tokens.generation, tokens.issued_at = tokens.generation + 1, self.clock.monotonic()
        return _json(200, self.pair())

    def pair(self) -> dict[str, object]:
        """Return the current pair as the token endpoint sends it."""
        return {
            "access_token": self.tokens.name("access"),
            "refresh_token": self.tokens.name("refresh"),
            "token_type": "Bearer",
            "expires_in": ACCESS_TOKEN_SECONDS,
        }

    def authorize(self) -> None:
        """Begin a new grant, as a user does who connects again."""
        self.tokens = replace(Tokens(), family=self.tokens.family + 1, superseded_sent=self.tokens.superseded_sent)
        self.tokens.issued_at, self.tokens.received = self.clock.monotonic(), {1}

    def _report_rows(self, position: int) -> Sequence[Mapping[str, object]]:
        return [{"sku": f"R{position}.{each}", "units_ordered": each} for each in range(self.random.randint(1, 3))]


def grouped(dataset: Dataset, rows: tuple[Row, ...]) -> Mapping[Group, Counter[str]]:
    """Return the rows of a list by day and sales channel."""
    groups: dict[Group, Counter[str]] = {}
    for row in rows:
        group = (str(row.day), row.part or "") if dataset.is_dated else ("", "")
        groups.setdefault(group, Counter())[row.text(dataset)] += 1
    return groups


def _order(row: Row) -> tuple[str, ...]:
    return tuple(str(value) for value in row.cells.values())


def _json(status: int, document: object) -> httpx.Response:
    return httpx.Response(status, content=json.dumps(document).encode(), headers={"Content-Type": "application/json"})
