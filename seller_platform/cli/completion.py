"""The names of datasets and accounts that a shell completes."""

import io
import os
from contextlib import redirect_stderr, suppress

import click
from click.shell_completion import CompletionItem

from seller_platform.errors import SellerPlatformError


def dataset_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the datasets whose names begin so."""
    from seller_platform.contract import REFRESHED  # the completion of commands does not need it

    return [CompletionItem(each.name, help=each.doc) for each in REFRESHED if each.name.startswith(incomplete)]


def account_keys(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the accounts whose keys or titles begin so; none where the database does not answer."""
    # Imported here because the completion of commands needs no database.
    from seller_platform.cli.installation import command_settings, use_demo
    from seller_platform.warehouse.connections.accounts import accounts
    from seller_platform.warehouse.postgres.database import Database
    from seller_platform.warehouse.postgres.location import stored_warehouse_url

    # What these write there would appear in the line that a person is typing.
    with suppress(SellerPlatformError), redirect_stderr(io.StringIO()):
        if context.find_root().params["uses_demo"]:
            use_demo(os.environ)
        with Database(stored_warehouse_url(command_settings())) as database:
            titles = {each.key: each.account.title for each in accounts(database)}
        begins = incomplete.casefold()
        return [
            CompletionItem(key, help=title)
            for key, title in titles.items()
            if any(name.casefold().startswith(begins) for name in (key, title))
        ]
    return []
