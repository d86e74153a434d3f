"""Reads Markdown documents: blocks of code, commands, links and headings."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from seller_platform_tests.tools.documentation import ARCHITECTURE, PAGES, README

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(seller-platform [^`]+)`")
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
_SEPARATORS = ("&&", "||", ";", "|")
_ASSIGNMENT = re.compile(r"[A-Z_]+=")


@dataclass(frozen=True)
class Document:
    """A file of Markdown."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def name(self) -> str:
        """The name of a page, or of another file."""
        is_page = self.path.is_relative_to(PAGES)
        return str(self.path.relative_to(PAGES).with_suffix("")) if is_page else self.path.name

    def blocks(self, language: str) -> list[str]:
        """Return the blocks of code in a language."""
        return [code for name, code in _BLOCK.findall(self.text) if name == language]

    @property
    def prose(self) -> str:
        """The text without its blocks of code."""
        return _BLOCK.sub("", self.text)

    @property
    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    @property
    def images(self) -> list[tuple[str, str]]:
        """The description and the path of each picture."""
        return _IMAGE.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """The fragments by which GitHub links the headings."""
        headings = re.findall(r"^#+ (.+)$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    @property
    def lines(self) -> list[str]:
        """The lines that a reader types, in their order, without the prompt and comments."""
        return [line for block in self.blocks("console") for line in typed(block)]

    @property
    def mentioned_commands(self) -> list[list[str]]:
        """The words of the commands that the prose names."""
        return [shlex.split(" ".join(text.split())) for text in _INLINE.findall(self.prose)]


def typed(block: str) -> list[str]:
    """Return the lines of a block of a console, without the prompt and comments."""
    lines = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    return [re.sub(r"\s+# .*$", "", line) for line in lines]


def documents() -> list[Document]:
    """Return the README and every page."""
    return [Document(README), *map(Document, sorted(PAGES.rglob("*.md")))]


def others() -> list[Document]:
    """Return the documents for people who change or protect the project."""
    return [Document(path) for path in sorted(ARCHITECTURE.parent.glob("*.md"))]


def commands_of(line: str) -> Iterator[list[str]]:
    """Yield the words of each simple command of a line of shell, without assignments and redirections."""
    words: list[str] = []
    for word in [*shlex.split(line.replace(";", " ; ")), ";"]:
        if word not in _SEPARATORS:
            words.append(word)
            continue
        while words and _ASSIGNMENT.match(words[0]):
            words.pop(0)
        if ">" in words:
            words = words[: words.index(">")]
        if words:
            yield words
        words = []
