"""The endpoints of the token's user and their accounts."""

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.contract.wire import USER_ACCOUNTS, USER_ME
from seller_platform.service.access import accounts_of, authenticate
from seller_platform.service.http.responses import json_answer, success_answer
from seller_platform.service.openapi.operations import (
    INTEGER,
    TEXT,
    Description,
    object_schema,
    row_schema,
    success_schema,
)
from seller_platform.service.openapi.routes import Cost, Route
from seller_platform.service.pool import Store

_USER = object_schema(
    "User",
    {
        "id": (INTEGER, "The user's number."),
        "name": (TEXT, "The user's name."),
        "email": (TEXT, "The address with which the user logs in."),
        "status": (TEXT, "State of the user, such as active."),
        "active": ({"type": "boolean"}, "Whether the user may use the service."),
    },
    description="The user on whose behalf the token was issued.",
)
_ME = success_schema("What the answer holds.", {"user": _USER})
_OWN = "A token acts for the one user who approved its application, and reads what that user may read."
_ALL = (
    "Every account that the token may read, in one answer without pages: all of the user's, or those that the user "
    "ticked on the consent page. Two may have the same title: then select "
    "them by `seller_id` with `marketplace_id`, which is the field `marketplace` here. Groups are not listed; "
    "whoever runs the service makes them, and `group_title` selects one."
)
_ROWS = {"type": "array", "items": row_schema(ACCOUNTS.name, ACCOUNTS.columns)}
_ACCOUNTS = object_schema("", {"accounts": (_ROWS, "Every account, by number.")})


def user_routes(store: Store) -> tuple[Route, ...]:
    """Return the endpoints of the user."""

    async def answer_me(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request)
        user = {name: getattr(caller, name) for name in ("id", "name", "email", "status")}
        user["active"] = caller.status == "active"
        return success_answer("The user of this token.", user=user)

    async def answer_accounts(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request)
            accounts = await accounts_of(connection, caller)
        names = [column.name for column in ACCOUNTS.columns]
        return json_answer({"accounts": [{name: getattr(account, name) for name in names} for account in accounts]})

    refusals = (401, 503)
    return (
        Route(
            USER_ME,
            answer_me,
            Description("read_user", "user", "Tell whose token it is.", _OWN, _ME, refusals=refusals),
            cost=Cost.QUICK,
        ),
        Route(
            USER_ACCOUNTS,
            answer_accounts,
            Description("list_accounts", "user", "List the user's accounts.", _ALL, _ACCOUNTS, refusals=refusals),
            cost=Cost.QUICK,
        ),
    )
