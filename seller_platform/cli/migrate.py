"""`seller-platform migrate`: every schema brought to today's version, ahead of the programs that use it."""

import click

from seller_platform.cli.output import Output, json_option
from seller_platform.cli.workplace import open_workplace


@click.command()
@json_option
def migrate(*, as_json: bool) -> None:
    """Bring the database to the schema of this version: ours and Dagster's.

    Every program does that for itself when it starts; where several start at once, or with fewer rights, run this
    first. Readers go on reading meanwhile.
    """
    from seller_platform.orchestration.instance.home import open_instance

    output = Output(as_json=as_json)
    with open_workplace() as place:
        with open_instance(place.settings.home) as instance:
            instance.upgrade()
        version = place.database.version()
        where = place.database.where
    if as_json:
        output.document({"database": where, "version": version})
        return
    output.say(f"{where} is at version {version}.")
