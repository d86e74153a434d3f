"""`seller-platform keys`: the keys that encrypt stored grants and client secrets."""

import click

from seller_platform.cli.installation import Installation, open_stored_installation
from seller_platform.cli.output import Document, Output, json_option
from seller_platform.counts import count_of
from seller_platform.errors import CheckFailedError
from seller_platform.ingest.connections.key_rotation import Resealed, reseal, rotate_key_file, sealed_otherwise
from seller_platform.warehouse.connections.secrets import key_file, new_key

_SETTING = "SELLER_PLATFORM_SECRET_KEY"


class RotationDocument(Document, frozen=True):
    """What was encrypted with another key."""

    encrypted: Resealed
    next_step: str


class NewKeyDocument(Document, frozen=True):
    """A new key, and how to replace that of the setting by it. Nothing has changed."""

    new_key: str
    steps: list[str]


@click.group()
def keys() -> None:
    """Manage the keys that encrypt stored grants and client secrets."""


@keys.command()
def generate() -> None:
    """Print a new key for SELLER_PLATFORM_SECRET_KEY; nothing is stored."""
    Output(as_json=False).line(new_key())


@keys.command()
@click.option(
    "--finish", is_flag=True, help="Make no new key; finish a rotation, and check that the old key can be removed."
)
@json_option(RotationDocument, NewKeyDocument)
def rotate(*, finish: bool, output: Output) -> None:
    """Encrypt grants and client secrets with another key, without a failed read.

    The key in the home folder is replaced at once: running programs read the new one. A key in
    SELLER_PLATFORM_SECRET_KEY must be replaced by hand: this command then makes a new key and prints the steps. Run
    again with several keys in the setting, it encrypts everything with the first one.
    """
    with open_stored_installation() as installation:
        if installation.settings.secret_key is None:
            resealed = rotate_key_file(installation.database, installation.settings.home, finish=finish)
            next_step = f"The key in {key_file(installation.settings.home)} is the only one that is needed."
        elif len(installation.box.keys) > 1:
            had_others = sealed_otherwise(installation.database, installation.settings.home, installation.box.first())
            resealed = reseal(installation.database, installation.settings.home, installation.box)
            next_step = (
                f"Next: set {_SETTING} to its first key alone and restart the programs; the others are not needed now."
                if had_others
                else "Everything was encrypted with the first key already. If that is the new one, set "
                f"{_SETTING} to it alone and restart the programs; if it is the old one, put the new one first, "
                "restart the programs, and run this again."
            )
        elif finish:
            _check(installation)
            resealed = Resealed(0, 0, 0)
            next_step = f"Everything is encrypted with the one key in {_SETTING}."
        else:
            _explain(output)
            return
        _check(installation)
    output.document(RotationDocument(encrypted=resealed, next_step=next_step))
    output.line(f"Encrypted again: {count_of(resealed.grants, 'grant')}, {resealed.client_secrets} client secrets.")
    output.line(next_step)


def _check(installation: Installation) -> None:
    """Fail if a secret cannot be decrypted with the first key alone."""
    others = sealed_otherwise(installation.database, installation.settings.home, installation.box.first())
    if others:
        raise CheckFailedError(
            f"these are encrypted with another key than the first: {', '.join(others)}. A program that still runs with "
            "another order of keys wrote them; restart it, then run `seller-platform keys rotate` again"
        )


def _explain(output: Output) -> None:
    """Print a new key and the steps to use it; nothing is changed."""
    fresh = new_key()
    steps = (
        f"Append the new key to {_SETTING} wherever it is set, after a comma, and restart every program: "
        "then all of them can read with both keys.",
        "Put the new key first, and restart every program: then they write with it.",
        "Run `seller-platform keys rotate` with that setting: it encrypts everything stored with the first key.",
        f"Set {_SETTING} to the new key alone, and restart every program.",
    )
    output.document(NewKeyDocument(new_key=fresh, steps=list(steps)))
    output.line(f"A new key: {fresh}")
    output.line(f"The present key is in {_SETTING}; nothing has changed yet. Do this, in this order:")
    for number, step in enumerate(steps, start=1):
        output.line(f"{number}. {step}")
