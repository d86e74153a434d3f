"""The tools `docs` and `sql`: pages of documentation, and a statement of PostgreSQL."""

import re
from itertools import islice
from shlex import quote
from typing import Annotated

from pydantic import Field, StringConstraints

from seller_platform.agents.asker import Asker
from seller_platform.agents.proof import Fact, Name, Proof, Seen, ToolAnswer, beyond
from seller_platform.cli.pages import PAGES
from seller_platform.errors import UnanswerableError
from seller_platform.warehouse.readers.statements import open_result

_SECTIONS = 5


class DocsArguments(Fact):
    """Words to look for."""

    words: Name = Field(description="What to look for, such as `unsettled days`.")


class SectionRow(Fact):
    """A section of a page."""

    page: str
    heading: str
    text: str


class SqlArguments(Fact):
    """A statement."""

    statement: Annotated[str, StringConstraints(min_length=1, max_length=20_000, pattern=r"^[^\x00]*$")]
    limit: int = Field(default=200, ge=1, le=2_000, description="The most rows.")


class ResultRow(Fact):
    """A row of a result, as PostgreSQL spells its values."""

    values: dict[str, str | None]


def search_docs(_: Asker, arguments: DocsArguments) -> ToolAnswer[SectionRow]:
    """Find the sections of Seller Platform's documentation that have most of some words, best in the heading.

    Raises:
        UnanswerableError: No section has any of them.
    """
    sought, sections = re.findall(r"\w{2,}", arguments.words.casefold()), list[tuple[int, SectionRow]]()
    for page in PAGES:
        for section in re.split(r"^(?=##? )", page.text, flags=re.MULTILINE):
            heading, folded = section.partition("\n")[0].strip("# "), section.casefold()
            score = sum((word in folded) * (2 + 3 * (word in heading.casefold())) for word in sought)
            sections.append((score, SectionRow(page=page.name, heading=heading, text=section[:4_000])))
    best = [row for score, row in sorted(sections, key=lambda each: -each[0])[:_SECTIONS] if score]
    if not best:
        raise UnanswerableError(
            f"no page has any of the words {arguments.words!r}",
            "Look for other words; the candidates are the pages.",
            [page.name for page in PAGES],
        )
    return ToolAnswer(rows=tuple(best), proof=Proof(seen=Seen(command=f"seller-platform docs {best[0].page}")))


def run_sql(asker: Asker, arguments: SqlArguments) -> ToolAnswer[ResultRow]:
    """Execute a SELECT on the schemas seller, history and marts, which only reads.

    Use it where no metric answers, and say that the number is not governed.

    Raises:
        UnanswerableError: The asker may not see every account.
        RequestError: PostgreSQL refused the statement, it took too long, or two of its columns have one name.
    """
    if asker.accounts is not None or asker.reader_url is None:
        raise UnanswerableError("statements are executed only for who may see every account", "Ask another tool.")
    with open_result(asker.reader_url, arguments.statement, seconds=30.0) as result:
        names = result.names
        rows = list(islice((row for block in result.blocks for row in block), arguments.limit + 1))
    return ToolAnswer(
        rows=tuple(ResultRow(values=dict(zip(names, row, strict=True))) for row in rows[: arguments.limit]),
        notes=(
            "A statement is not a governed metric: neither coverage (ask the tool) nor currencies are checked.",
            *beyond(arguments.limit, rows),
        ),
        proof=Proof(bound=asker.bound(), seen=Seen(command=f"seller-platform query {quote(arguments.statement)}")),
    )
