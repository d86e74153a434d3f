"""The tools `docs` and `sql`: pages of documentation, and a statement of PostgreSQL."""

import re
from itertools import islice
from shlex import quote
from typing import Annotated

from pydantic import Field, StringConstraints

from seller_platform.answers.asker import Asker
from seller_platform.answers.figures import Name
from seller_platform.answers.proof import Fact, Proof, Seen, ToolAnswer
from seller_platform.documentation import PAGES
from seller_platform.errors import UnanswerableError
from seller_platform.warehouse.readers.statements import open_result

_SECTIONS, _LONGEST_SECTION = 5, 4_000
_SECONDS = 30.0


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
    """Answer with the sections that have most of the words.

    Raises:
        UnanswerableError: No section has any of them.
    """
    words = re.findall(r"\w{2,}", arguments.words.casefold())
    sections = []
    for page in PAGES:
        for section in re.split(r"^(?=##? )", page.text, flags=re.MULTILINE):
            heading, folded = section.partition("\n")[0].strip("# "), section.casefold()
            score = sum((word in folded) * (2 + 3 * (word in heading.casefold())) for word in words)
            sections.append((score, page.name, heading, section[:_LONGEST_SECTION]))
    best = [each[1:] for each in sorted(sections, key=lambda each: -each[0])[:_SECTIONS] if each[0]]
    if not best:
        raise UnanswerableError(
            f"no page has any of the words {arguments.words!r}",
            "Look for other words; the candidates are the pages.",
            [page.name for page in PAGES],
        )
    return ToolAnswer(
        rows=tuple(SectionRow(page=page, heading=heading, text=text) for page, heading, text in best),
        proof=Proof(
            as_of=None,
            coverage="Every page that is shipped with this version.",
            settledness="Pages change with versions only.",
            seen=Seen(command=f"seller-platform docs {best[0][0]}"),
        ),
    )


def run_sql(asker: Asker, arguments: SqlArguments) -> ToolAnswer[ResultRow]:
    """Answer a SELECT, with the rights of a reader, in a transaction that only reads.

    Raises:
        UnanswerableError: The asker may not see every account.
        RequestError: PostgreSQL refused the statement, or it took too long.
    """
    if asker.accounts is not None:
        raise UnanswerableError("statements are executed only for who may see every account", "Ask another tool.")
    with open_result(asker.database, arguments.statement, seconds=_SECONDS) as result:
        rows = list(islice((row for block in result.blocks for row in block), arguments.limit + 1))
        names = [column.name for column in result.columns]
    return ToolAnswer(
        rows=tuple(ResultRow(values=dict(zip(names, row, strict=True))) for row in rows[: arguments.limit]),
        notes=(
            "A statement is not a governed metric: neither coverage nor currencies are checked.",
            *(["There are more rows than the limit."] if len(rows) > arguments.limit else []),
        ),
        proof=Proof(
            as_of=None,
            coverage="Not known of a statement: ask the tool `coverage`.",
            settledness="Not known of a statement.",
            bound=asker.bound(),
            seen=Seen(command=f"seller-platform query {quote(arguments.statement)}"),
        ),
    )
