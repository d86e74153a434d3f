"""The page on which users set a password by a link of the operator, which works once."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.service.http.bodies import read_form
from seller_platform.service.pages.login import LOGIN
from seller_platform.service.pages.password import new_password_problem
from seller_platform.service.pages.rendering import redirect, render
from seller_platform.service.pool import Store
from seller_platform.service.security_events import EventKind, record_event
from seller_platform.service.users.passwords import hash_password
from seller_platform.service.users.reset_links import LinkOwner, owner_of_link, use_link

RESET = "/reset-password"


async def show_link(store: Store, contact: str, request: Request) -> Response:
    """Answer GET /reset-password, which leaves the link as it is."""
    token = request.query_params.get("token", "")
    return _page(token, await owner_of_link(store, token), contact)


async def set_by_link(store: Store, contact: str, request: Request) -> Response:
    """Answer POST /reset-password, which uses the link."""
    form = await read_form(request)
    token, new = form.get("token", ""), form.get("new", "")
    owner = await owner_of_link(store, token)
    if owner is None:
        return _page(token, None, contact)
    problem = new_password_problem(new, form.get("repeated", ""), owner.email, owner.name)
    if problem is not None:
        return _page(token, owner, contact, problem)
    password_hash = await asyncio.to_thread(hash_password, new)
    async with store.connection() as connection, connection.transaction():
        if not await use_link(connection, token, password_hash):
            return _page(token, None, contact)
        details = {"by": "reset link"}
        await record_event(connection, EventKind.PASSWORD_CHANGED, request=request, user_id=owner.id, details=details)
    return redirect(f"{LOGIN}?notice=password")


def _page(token: str, owner: LinkOwner | None, contact: str, problem: str | None = None) -> Response:
    values = {"token": token, "owner": owner, "contact": contact, "problem": problem}
    return render("reset_password.html", values, status=404 if owner is None else 422 if problem else 200)
