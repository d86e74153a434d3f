"""The list endpoints: `route_for` makes the route of each dataset."""

import calendar
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.clocks import Clock
from seller_platform.contract import LISTS, Dataset
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, ORDERS, TRANSACTIONS
from seller_platform.contract.datasets.stock import INVENTORY
from seller_platform.contract.wire import AS_OF, COMPUTED_BY, CURRENT_PAGE, LAST_PAGE, PER_PAGE, REPLICA, ROWS, TOTAL
from seller_platform.service.access import SELECTION, SelectedAccounts, authenticate, read_selector, select_accounts
from seller_platform.service.errors import ApiError, InvalidParametersError
from seller_platform.service.http.parameters import Count, Currency, Parameter, Query, choice_of
from seller_platform.service.http.responses import base_url_of, json_answer
from seller_platform.service.lists.page_queries import (
    Days,
    ListRequest,
    Need,
    PageQuery,
    PageSource,
    RowPage,
    missing_rates,
    read_page,
)
from seller_platform.service.lists.pins import AS_OF_MOMENT, Pin, moved_on, next_link, read_pin, subject_of, write_pin
from seller_platform.service.lists.replica import require_read, unknown_to_replica
from seller_platform.service.lists.state import database_of
from seller_platform.service.lists.velocity import VELOCITY_END, VELOCITY_RULES, VELOCITY_START, velocity_source
from seller_platform.service.metrics import notes_of
from seller_platform.service.openapi import Operation, Route, page_type, row_type
from seller_platform.service.pool import Connection, Store

START = Parameter[date](
    "start_date", "First day, in the account's time zone; by default six days before `end_date`.", date
)
END = Parameter[date]("end_date", "Last day, in the account's time zone; by default today.", date)
PAGE = Parameter[int]("page", "Page of the list, from 1; by default 1.", Count)
CURRENCY = Parameter[str]("currency", "Convert amounts to this currency, at the rate of each row's day.", Currency)
_DEFAULT_SPAN = timedelta(days=6)

_DAYS = (
    "Days are days of the account's own time zone, also in a group, and both ends are included. Without dates the list "
    f"has the {_DEFAULT_SPAN.days + 1} days up to today."
)
_SNAPSHOT = "The rows are those of the newest snapshot of each account."
_REPLICA_RULES = (
    "An account may be a copy of another service's: what was never read from there is refused, with the `reason` "
    "`replica`, and not told as if there were none. An answer whose rows are computed from the copy carries "
    f"`{COMPUTED_BY}: {REPLICA}`."
)
_WALKS = (
    f"Each page but the last carries a `Link` to the next one. With its `{AS_OF}` that page is of the same moment as "
    "the first, whatever is loaded meanwhile; where it cannot be any more, the answer is 410, and the walk begins "
    "again. Without it, a page is of the present list."
)
_NAMED_CURRENCY = "Each amount is in the currency that its row names; none is converted."
_ORDER = "Rows have one fixed order, so that pages neither overlap nor leave any out."
_ENDLESS = "No total is announced: ask for the pages of {size} rows until one has fewer."
CONVERSION = (
    "Amounts are in the currency of the account, to the last digit that is stored. With `currency` each is "
    "converted at the exchange rate of its row's day and rounded to cents. A group whose accounts keep several "
    "currencies needs `currency`; a day whose rate is not known is refused."
)
PAGES = f"{_ORDER} A page past the last is empty, and tells the true `total`."

SERVED: tuple[Dataset, ...] = tuple(dataset for dataset in LISTS if not dataset.is_computed)
"""The datasets whose rows are served as they are stored; those of the statistics are computed."""

SourceOf = Callable[[SelectedAccounts, Mapping[str, date | None], datetime], PageSource | None]
_RATE = "SELECT FROM service.exchange_rates WHERE currency = %s LIMIT 1"


def route_for(dataset: Dataset, store: Store, clock: Clock) -> Route:
    """Return the endpoint that lists a dataset."""
    parameters, rules = _parameters_of(dataset), _RULES[dataset.name]

    async def answer(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request)
            list_request, _ = read_list_request(request.scope["query_string"], dataset, parameters)
            selected = await select_accounts(connection, caller, list_request.selector)
            subject, now, pin = subject_of(dataset, selected, list_request), clock(), None
            if list_request.as_of is not None:
                pin = read_pin(list_request.as_of, subject, await database_of(connection), now)
                now = pin.now
            days = days_of_accounts(dataset, selected, list_request, now) if dataset.is_dated else None
            needs = [Need(dataset, START.name, days) if dataset.is_dated else Need(dataset)]
            source = rules.source(selected, list_request.own_days, now) if rules.source else None
            await require_read(connection, selected, [*needs, *(source.needs if source else ())], now)
            currency, is_converted = list_request.currency, False
            if keeps_own_currency(dataset):
                is_converted = await check_currency(connection, selected, currency)
                # The rates of a pinned list are those of its first page, which were all there.
                if is_converted and currency is not None and pin is None:
                    missing = await missing_rates(connection, dataset, selected, days=days, currency=currency)
                    require_rates(selected, currency, missing)
            query = PageQuery(dataset, list_request, days, source, pin.snapshot if pin else None)
            page, state = await read_page(connection, selected, query)
        # Rows may have changed otherwise than by a load, or what they are computed from.
        if pin is not None and (page.total, state.others) != (pin.total, pin.others):
            raise moved_on("the list can no longer be read as it was when the walk began")
        token = list_request.as_of
        if token is None and state.snapshot is not None:
            token = write_pin(Pin(now, page.total, state.others, state.snapshot), subject, state.database)
        headers = {
            **({COMPUTED_BY: REPLICA} if selected.has_replicas and (is_converted or source is not None) else {}),
            **next_link(
                base_url_of(request) + dataset.path, request.scope["query_string"], list_request, page.total, token
            ),
        }
        return page_answer(request, dataset, page, list_request, headers)

    paragraphs = [
        f"{_DAYS if dataset.is_dated else _SNAPSHOT} {_REPLICA_RULES}",
        rules.notes,
        CONVERSION if keeps_own_currency(dataset) else _NAMED_CURRENCY if dataset.money else None,
        PAGES if dataset.announces_total else f"{_ORDER} {_ENDLESS.format(size=dataset.fixed_page_size)}",
        _WALKS,
    ]
    computed = (COMPUTED_BY,) if keeps_own_currency(dataset) or rules.source is not None else ()
    operation = Operation(
        dataset.path,
        name=f"list_{dataset.name}",
        area=dataset.area,
        summary=f"List rows: {dataset.doc[0].lower()}{dataset.doc[1:]}",
        rules="\n\n".join(filter(None, paragraphs)),
        answer=page_type(row_type(dataset.name, dataset.columns), announces_total=dataset.announces_total),
        parameters=parameters,
        refusals=(401, 404, 410, 422, 503),
        headers=(*computed, "Link"),
    )
    return Route(operation, answer)


def _parameters_of(dataset: Dataset) -> tuple[Parameter[Any], ...]:
    """Return every parameter that the list of a dataset takes, in the order of the documentation."""
    sizes, split_by = choice_of(*dataset.page_sizes), dataset.split_by
    own: list[Parameter[Any]] = []
    if dataset.page_sizes:
        own.append(Parameter[int]("per_page", "Rows on a page.", sizes, required=True))
    own += [*((START, END) if dataset.is_dated else ()), *_RULES[dataset.name].parameters]
    if split_by is not None:
        doc, parts = "The part of the list to return.", choice_of(*split_by.values)
        own.append(Parameter[str](split_by.parameter, doc, parts, split_by.required))
    return (*SELECTION, *own, *((CURRENCY,) if keeps_own_currency(dataset) else ()), PAGE, AS_OF_MOMENT)


def read_list_request(
    raw: bytes, dataset: Dataset, parameters: Sequence[Parameter[Any]], *, default_size: int = 0
) -> tuple[ListRequest, Query]:
    """Return what a query string asks for of a list, and the query for what only one list has."""
    query = Query(raw)
    selector, split_by = read_selector(query), dataset.split_by
    values = {parameter.name: query.value(parameter) for parameter in parameters if parameter not in SELECTION}
    query.check()
    list_request = ListRequest(
        selector,
        start=values.get(START.name),
        end=values.get(END.name),
        part=values.get(split_by.parameter) if split_by else None,
        currency=values.get(CURRENCY.name),
        page=values[PAGE.name] or 1,
        per_page=values.get("per_page") or dataset.fixed_page_size or default_size,
        own_days={parameter.name: values[parameter.name] for parameter in _RULES[dataset.name].parameters},
        as_of=values.get(AS_OF),
    )
    return list_request, query


def keeps_own_currency(dataset: Dataset) -> bool:
    """Whether the dataset has amounts in the account's currency, which the rows do not name."""
    return any(column.currency is None for column in dataset.money)


async def check_currency(connection: Connection, selected: SelectedAccounts, currency: str | None) -> bool:
    """Return whether the accounts' amounts must be converted.

    Raises:
        InvalidParametersError: The accounts keep several currencies and none was requested, or no rate of the
            requested currency is stored.
        ApiError: No rate of it is stored, and an account is a replica.
    """
    if currency is None and len(selected.currencies) > 1:
        raise InvalidParametersError(
            {CURRENCY.name: [f"is required; the accounts keep {', '.join(selected.currencies)}"]}
        )
    if currency is None or selected.currencies == [currency]:
        return False
    if currency != "EUR" and await (await connection.execute(_RATE, (currency,))).fetchone() is None:
        raise _unknown_rate(selected, f"is {currency}, of which no exchange rate is known")
    return True


def require_rates(selected: SelectedAccounts, currency: str | None, missing: Mapping[str | None, date]) -> None:
    """Return if no exchange rate is missing.

    Args:
        missing: The currencies of which a rate is missing, each with the first such day.

    Raises:
        InvalidParametersError: A rate is missing.
        ApiError: A rate is missing, and an account is a replica: the service that its rows come from may have it.
    """
    parameter = f"is {currency}" if currency is not None else "was not sent, and amounts are in several"
    for code, day in missing.items():
        problem = f"{parameter}; on {day} the exchange rate of {code or 'an unknown currency'} is not known"
        raise _unknown_rate(selected, problem)


def _unknown_rate(selected: SelectedAccounts, problem: str) -> ApiError:
    if selected.has_replicas:
        advice = "its operator can load them with `seller-platform service rates load FILE --replica`"
        return unknown_to_replica(
            CURRENCY.name, f"{problem} here; no list tells a copy of exchange rates, but {advice}"
        )
    return InvalidParametersError({CURRENCY.name: [problem]})


def days_of_accounts(
    dataset: Dataset, selected: SelectedAccounts, list_request: ListRequest, now: datetime
) -> list[Days]:
    """Return the requested days of each account.

    The time zone of an account decides what today is. Where the start is today in one zone, it may be tomorrow in
    another, whose accounts have no rows yet.

    Raises:
        InvalidParametersError: The start lies after the end, which is today unless one is sent, or the end too far
            after the start.
    """
    first, latest_end, days = list_request.start, _RULES[dataset.name].latest_end, list[Days]()
    has_begun = first is not None and any(each.today(now) >= first for each in selected.accounts)
    for account in selected.accounts:
        end = list_request.end or account.today(now)
        start = first or max(date.min + _DEFAULT_SPAN, end) - _DEFAULT_SPAN
        last_day = f"{end}" if list_request.end else f"{end} (today in {account.zone_name})"
        if start > end and list_request.end is None and has_begun:
            end = start
        if start > end:
            raise InvalidParametersError({START.name: [f"is {start}, after the end, {last_day}"]})
        if latest_end is not None and end > (latest := latest_end(start)):
            problem = f"is {last_day}; with start_date {start} it may be at most {latest}, one month later"
            raise InvalidParametersError({END.name: [problem]})
        days.append(Days(start, end))
    return days


def page_answer(
    request: Request, dataset: Dataset, page: RowPage, list_request: ListRequest, headers: Mapping[str, str]
) -> Response:
    """Return the answer with a page, and note how many rows it has."""
    number, per_page = list_request.page, list_request.per_page
    notes_of(request.scope).rows += min(per_page, max(0, page.total - (number - 1) * per_page))
    rows = msgspec.Raw(b"[%b]" % page.rows)
    if not dataset.announces_total:
        return json_answer({ROWS: rows}, headers=headers)
    last = max(1, -(-page.total // per_page))  # an empty list has one empty page
    numbers = {TOTAL: page.total, PER_PAGE: per_page, LAST_PAGE: last}
    return json_answer({CURRENT_PAGE: number, ROWS: rows, **numbers}, headers=headers)


@dataclass(frozen=True)
class ListRules:
    """What only the list of one dataset has.

    Attributes:
        notes: What a caller must know beside parameters and fields.
        latest_end: Returns the latest `end_date` that goes with a `start_date`; without it, any may be sent.
        parameters: Parameters that only this list takes; `source` receives their values, by name.
        source: Returns what makes the pages, or None where the stored rows do.
    """

    notes: str = ""
    latest_end: Callable[[date], date] | None = None
    parameters: tuple[Parameter[date], ...] = ()
    source: SourceOf | None = None


def one_month_after(day: date) -> date:
    """Return the same day of the next month, or that month's last day."""
    year, month = (day.year, day.month + 1) if day.month < 12 else (day.year + 1, 1)
    if year > date.max.year:
        return date.max
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


_RULES = dict.fromkeys((dataset.name for dataset in LISTS), ListRules()) | {
    ORDERS.name: ListRules(
        "`end_date` may be at most one calendar month after `start_date`; what follows 31 January is the last "
        "day of February. Without `sales_channel` the list has the orders of all channels.",
        latest_end=one_month_after,
    ),
    DAILY_PRODUCT_SALES.name: ListRules(
        "Without `sales_channel` the list has one row for each day and SKU, in which both channels are added."
    ),
    TRANSACTIONS.name: ListRules("Two entries may be equal in every field; both are true, and count."),
    INVENTORY.name: ListRules(VELOCITY_RULES, parameters=(VELOCITY_START, VELOCITY_END), source=velocity_source),
}
"""The rules of each dataset's list, which are empty for most."""
