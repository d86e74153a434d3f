"""The endpoints of the token's user and their accounts."""

from typing import Annotated

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.contract.wire import USER_ACCOUNTS, USER_ME
from seller_platform.service.access import accounts_of, authenticate
from seller_platform.service.http.parameters import about
from seller_platform.service.http.responses import json_answer
from seller_platform.service.openapi import Cost, Done, Operation, Route, list_of, row_type
from seller_platform.service.pool import Store


class TokenUser(Struct):
    """The user on whose behalf the token was issued."""

    id: Annotated[int, about("The user's number.")]
    name: Annotated[str, about("The user's name.", "Ann Example")]
    email: Annotated[str, about("The address with which the user logs in.", "ann@shop.example")]
    status: Annotated[str, about("State of the user, such as active.", "active")]
    active: Annotated[bool, about("Whether the user may use the service.")]


class Me(Done):
    """The user of a token."""

    user: TokenUser


_Account = row_type(ACCOUNTS.name, ACCOUNTS.columns)
_Accounts = msgspec.defstruct("Accounts", [("accounts", list_of(_Account, "Every account, by number."))])


_OWN = "A token acts for the one user who approved its application, and reads what that user may read."
_ALL = (
    "Every account that the token may read, in one answer without pages: all of the user's, or those that the user "
    "ticked on the consent page. Two may have the same title: then select "
    "them by `seller_id` with `marketplace_id`, which is the field `marketplace` here. Groups are not listed; "
    "whoever runs the service makes them, and `group_title` selects one."
)
_READ_USER = Operation(USER_ME, "read_user", "user", "Tell whose token it is.", _OWN, Me, refusals=(401, 503))
_LIST_ACCOUNTS = Operation(
    USER_ACCOUNTS, "list_accounts", "user", "List the user's accounts.", _ALL, _Accounts, refusals=(401, 503)
)


def user_routes(store: Store) -> tuple[Route, ...]:
    """Return the endpoints of the user."""

    async def answer_me(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request)
        user = TokenUser(caller.id, caller.name, caller.email, caller.status, caller.status == "active")
        return json_answer(Me(200, "The user of this token.", user))

    async def answer_accounts(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request)
            accounts = await accounts_of(connection, caller)
        return json_answer({"accounts": [msgspec.convert(each, _Account, from_attributes=True) for each in accounts]})

    return (Route(_READ_USER, answer_me, Cost.QUICK), Route(_LIST_ACCOUNTS, answer_accounts, Cost.QUICK))
