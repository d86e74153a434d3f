"""Groups of a user's accounts, which the operator manages and `group_title` selects."""

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert

from seller_platform.errors import RequestError
from seller_platform.service.security_events import EventKind, record_operator_event
from seller_platform.service.tables import ACCOUNT_GROUP_MEMBERS, ACCOUNT_GROUPS
from seller_platform.service.users.store import open_user, require_accounts
from seller_platform.warehouse.postgres.database import Database

_LONGEST_TITLE = 100


def set_group(database: Database, email: str, title: str, account_keys: Sequence[str]) -> None:
    """Create or replace a group of a user's accounts.

    Raises:
        RequestError: The title cannot be used, or the user may not read one of the accounts; nothing was changed.
    """
    if not title.strip() or len(title) > _LONGEST_TITLE or not title.isprintable():
        raise RequestError(
            f"the title of the group must have 1 to {_LONGEST_TITLE} printable characters; it is {title!r}",
            code="InvalidGroupError",
        )
    with open_user(database, email) as (connection, user_id):
        require_accounts(connection, user_id, email, account_keys)
        group = {"user_id": user_id, "title": title}
        # The update changes nothing; it locks the row, so that two operators change the group one after the other.
        stored = insert(ACCOUNT_GROUPS).values(group).on_conflict_do_update(index_elements=list(group), set_=group)
        group_id = connection.execute(stored.returning(ACCOUNT_GROUPS.c.id)).scalar_one()
        connection.execute(delete(ACCOUNT_GROUP_MEMBERS).where(ACCOUNT_GROUP_MEMBERS.c.group_id == group_id))
        for key in dict.fromkeys(account_keys):
            connection.execute(insert(ACCOUNT_GROUP_MEMBERS).values(group_id=group_id, account=key))
        details = {"title": title, "accounts": list(dict.fromkeys(account_keys))}
        record_operator_event(connection, EventKind.GROUP_CHANGED, user_id=user_id, details=details)


def groups_of(database: Database, email: str) -> Mapping[str, tuple[str, ...]]:
    """Return the keys of the accounts in each of a user's groups, by title."""
    group, account = ACCOUNT_GROUPS.c, ACCOUNT_GROUP_MEMBERS.c.account
    members = select(func.array_agg(aggregate_order_by(account, account)))
    statement = select(group.title, members.where(ACCOUNT_GROUP_MEMBERS.c.group_id == group.id).scalar_subquery())
    with open_user(database, email) as (connection, user_id):
        of_user = statement.where(group.user_id == user_id).order_by(group.title)
        return {title: tuple(keys or ()) for title, keys in connection.execute(of_user)}


def remove_group(database: Database, email: str, title: str) -> None:
    """Delete a group; its accounts stay the user's.

    Raises:
        RequestError: The user has no group of that title.
    """
    with open_user(database, email) as (connection, user_id):
        group = ACCOUNT_GROUPS.c
        rows = connection.execute(select(group.title, group.id).where(group.user_id == user_id).order_by(group.title))
        titles = dict(rows.tuples().all())
        if title not in titles:
            listed = ", ".join(map(repr, titles)) or "none yet"
            raise RequestError(
                f"{email} has no group titled {title!r}; their groups are: {listed}", code="UnknownGroupError"
            )
        connection.execute(delete(ACCOUNT_GROUPS).where(ACCOUNT_GROUPS.c.id == titles[title]))
        record_operator_event(connection, EventKind.GROUP_REMOVED, user_id=user_id, details={"title": title})
