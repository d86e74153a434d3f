"""The endpoint of the statistics dashboard: parameters, description and route."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.clocks import Clock
from seller_platform.contract import Column, Kind
from seller_platform.contract.datasets.sales import SALES_BY_DATE, SALES_BY_PRODUCT, TREND
from seller_platform.contract.wire import COMPUTED_BY, REPLICA
from seller_platform.service.access import SELECTION, authenticate, select_accounts
from seller_platform.service.http.parameters import Parameter, choice_of
from seller_platform.service.lists.endpoints import (
    CURRENCY,
    END,
    PAGE,
    PAGES,
    START,
    check_currency,
    days_of_accounts,
    page_answer,
    read_list_request,
    require_rates,
)
from seller_platform.service.lists.page_queries import ListRequest
from seller_platform.service.lists.products import knows_parents
from seller_platform.service.lists.replica import unknown_to_replica
from seller_platform.service.openapi import Operation, Route, page_type, row_type
from seller_platform.service.pool import Store
from seller_platform.service.statistics.plan import Grouping, StatisticsRequest
from seller_platform.service.statistics.query import read_statistics

_PRODUCT, _DATE = "product", "date"
_PRODUCT_GROUPS = ("sku", "asin", "parent_asin")
_UNITS = {"day": "Date", "week": "Week", "month": "Month", "year": "Year"}
_PERIODS = ("Date", "Week", "Month", "Quarter", "Semester", "Year")

_VIEW = Parameter[str](
    "view_by", "What rows stand for: products, or periods.", choice_of(_PRODUCT, _DATE), required=True
)
_GROUP = Parameter[str](
    "group_by",
    "Which products or periods: sku, asin or parent_asin with view_by=product; day, week, month or year with "
    "view_by=date.",
    choice_of(*_PRODUCT_GROUPS, *_UNITS),
    required=True,
)
_PERIOD = Parameter[str](
    "period_by", "With view_by=product: one row per product and period; else ignored.", choice_of(*_PERIODS)
)
_SIZE = Parameter[int]("per_page", "Rows on a page; by default 500.", choice_of(*SALES_BY_DATE.page_sizes))

_PARAMETERS: tuple[Parameter[Any], ...] = (*SELECTION, _VIEW, _GROUP, _PERIOD, _SIZE, START, END, CURRENCY, PAGE)

_RULES = f"""\
With `view_by=product` a row stands for a product, in a group over all of its accounts; a product without a parent \
stands for its own. With `view_by=date` it stands for a part of the days asked for; weeks are those of ISO 8601. A \
product or a period without sales and fees has no row.

`product_sales` and `units_ordered` are the sums of the daily product sales of all channels. `product_cost` is the \
units times the cost elements that are valid on the day of the sale, by the newest cost periods; an element in \
another currency is converted at the rate of that day. It is null, and with it `profit`, `roi`, `profit_margin` and \
the trend of the profit, where an account is a copy whose cost periods were never read.

`platform_fees` are the transactions of type Fee, by the local day on which they were posted, as a positive cost. \
Fees that name no SKU count in the date views, and in the product views not at all: so the two need not add up to \
the same fees and profit. They are null, with the same four, where an account is a copy of which transactions were \
not read for all of the days. Where its daily product sales were not, the request is refused.

`trend` is in the plain views. With `view_by=date` each row is compared with the calendar period before it, and the \
first with the whole one before its own, even where the days asked for begin in the middle; with `view_by=product` \
with as many days before the first day. It is null where that was 0, and where a copy was not read for those days.

`velocity`, `out_of_stock_days` and the stock fields are in the plain views by product. `velocity` is units per day \
of the days asked for, to two decimals; `out_of_stock_days` counts those of them on which a stored snapshot shows no \
fulfillable unit; `inventory` and `local_inventory` are of the newest snapshot; `buybox_price` (the lowest, at the \
newest rate) and `sales_rank` (the best) are today's.

Of a copy, every view is computed here, and its answer carries `{COMPUTED_BY}: {REPLICA}`.

Amounts are in the currency of the account; a group whose accounts keep several needs `currency`. They are converted \
by day and product, at the rate of the day, and added unrounded; a figure with converted amounts is rounded once, to \
cents, and no other figure is rounded; a day whose rate is not known is refused. `profit` is the difference of the \
answered figures. `roi`, `profit_margin` and `trend` are percents to two decimals. {PAGES}"""

_LABEL = (
    "Label of the period: 2025-03-14, Week 11 2025, March 2025, Q1 2025, H1 2025 or 2025. Absent where a row stands "
    "for all days asked for."
)
_COLUMNS: tuple[Column, ...] = (
    *(replace(column, doc=_LABEL) if column.name == "date" else column for column in SALES_BY_PRODUCT.columns),
    Column("parent_asin", Kind.TEXT, "The listing of which the product is a variant."),
    Column("velocity", Kind.NUMBER, "Units ordered per day."),
    Column("out_of_stock_days", Kind.INTEGER, "Days on which nothing could be sold."),
    Column("inventory", Kind.INTEGER, "Units in the fulfilment network that can be sold now."),
    Column("local_inventory", Kind.INTEGER, "Units in the seller's own warehouses now."),
    Column("buybox_price", Kind.MONEY, "Price of the featured offer now."),
    Column("sales_rank", Kind.INTEGER, "Sales rank now."),
    TREND,
)
_ALWAYS = {column.name for column in SALES_BY_DATE.columns} - {TREND.name, "date"}
_ROW = row_type("statistics", _COLUMNS, optional={column.name for column in _COLUMNS} - _ALWAYS)
_OPERATION = Operation(
    SALES_BY_DATE.path,
    name="list_statistics",
    area=SALES_BY_DATE.area,
    summary="List sales, cost, fees and profit of products, of periods, or of products by period",
    rules=_RULES,
    answer=page_type(_ROW, announces_total=True),
    parameters=_PARAMETERS,
    refusals=(401, 404, 422, 503),
    headers=(COMPUTED_BY,),
)


def statistics_route(store: Store, clock: Clock) -> Route:
    """Return the endpoint of the statistics dashboard."""

    async def answer(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request)
            list_request, grouping = read_request(request.scope["query_string"])
            selected = await select_accounts(connection, caller, list_request.selector)
            now = clock()
            days = days_of_accounts(SALES_BY_DATE, selected, list_request, now)
            asked = StatisticsRequest(selected, grouping, days, list_request, now)
            currency = list_request.currency
            await check_currency(connection, selected, currency)
            if grouping.dimension == "parent_asin" and not await knows_parents(connection, selected):
                problem = (
                    "is parent_asin, but this service does not know the parents of the products: it serves rows that "
                    "were read from another service, which does not tell them. Group by sku or asin, or have "
                    "the operator load them with `seller-platform service products load FILE`"
                )
                raise unknown_to_replica(_GROUP.name, problem)
            page, missing_rates = await read_statistics(connection, asked)
        require_rates(selected, currency, missing_rates)
        headers = {COMPUTED_BY: REPLICA} if selected.has_replicas else {}
        return page_answer(request, SALES_BY_DATE, page, list_request, headers)

    return Route(_OPERATION, answer)


def read_request(raw: bytes) -> tuple[ListRequest, Grouping]:
    """Return the page that a query string asks for, and how its rows are grouped."""
    list_request, query = read_list_request(raw, SALES_BY_DATE, _PARAMETERS, default_size=500)
    view, group, period = query.value(_VIEW), query.value(_GROUP), query.value(_PERIOD)
    legal: Sequence[str] = _PRODUCT_GROUPS if view == _PRODUCT else tuple(_UNITS)
    if group not in legal:
        query.refuse(_GROUP.name, f"is {group}; with view_by={view} it must be one of {', '.join(legal)}")
    query.check()
    is_by_date = view == _DATE
    return list_request, Grouping(None if is_by_date else group, _UNITS[str(group)] if is_by_date else period)
