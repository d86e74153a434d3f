"""`seller-platform mcp`: answers the questions of an agent, over standard input and output."""

import logging.config

import anyio
import click

from seller_platform.agents.asker import Asker
from seller_platform.agents.protocol import mcp_server, stdio_server
from seller_platform.cli.installation import expect_home
from seller_platform.logs import log_configuration
from seller_platform.reading import open_stored
from seller_platform.warehouse.schema.readers import open_reading, reader_url


@click.command()
def mcp() -> None:
    """Answer the questions of an agent about the warehouse, over standard input and output.

    An MCP host starts this command. The tools only read, and `sql` is a reader of `seller-platform database reader`;
    the page `seller-platform docs agents` says how to add it to a host, and what each tool answers.
    """
    settings = expect_home()
    # Standard output is the protocol's.
    logging.config.dictConfig(log_configuration(settings.log_format, {"seller_platform": "WARNING"}))
    with open_stored(settings) as stored, open_reading(stored.url) as database:
        asker = Asker(database, reader_url=reader_url(stored, settings), dagster_url=settings.dagster_url)
        server = mcp_server(lambda _: asker, is_local=True)

        async def serve() -> None:
            async with stdio_server() as (received, sent):
                await server.run(received, sent, server.create_initialization_options())

        anyio.run(serve)
