"""Tests that links, pictures and generated parts of the documents are right."""

import re

import pytest

from seller_platform.documentation import PAGES as LISTED
from seller_platform.documentation import DocumentPage
from seller_platform.settings import Settings
from seller_platform_tests.documentation import ARCHITECTURE, PAGES, README, found_in, sections
from seller_platform_tests.documentation import documents as generated_documents
from seller_platform_tests.documents.markdown import Document, documents, others
from seller_platform_tests.journeys.test_ui import PICTURES

_WEB = ("http://", "https://")
_LINES = 220


@pytest.mark.parametrize("document", [*documents(), *others()], ids=lambda document: document.name)
def test_every_link_leads_to_a_file_and_a_heading(document: Document) -> None:
    broken = []
    for link in document.links:
        path, _, fragment = link.partition("#")
        target = (document.path.parent / path) if path else document.path
        if not link.startswith(_WEB) and (
            not target.exists() or (fragment and fragment not in Document(target).anchors)
        ):
            broken.append(link)

    assert broken == []


def test_every_module_that_the_architecture_names_exists() -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+)`", Document(ARCHITECTURE).prose))
    package = README.parent / "seller_platform"

    named = {name for name in named if (package / name.partition("/")[0]).is_dir()}
    assert len(named) > 40
    assert {name for name in named if not ((package / name).is_dir() or (package / f"{name}.py").exists())} == set()


def test_every_page_is_listed_and_linked_by_the_readme_or_the_reference() -> None:
    names = {document.name for document in documents()} - {"README.md"}
    linked = {
        (source.parent / link.partition("#")[0]).resolve()
        for source in (README, PAGES / "reference.md")
        for link in Document(source).links
    }

    assert names == {page.name for page in LISTED}
    assert {page.path for page in LISTED} <= linked


@pytest.mark.parametrize("page", LISTED, ids=lambda page: page.name)
def test_every_page_begins_with_what_its_reader_can_do_afterwards(page: DocumentPage) -> None:
    assert page.text.startswith("# ")
    assert page.text.split("\n\n")[1].startswith(
        ("After reading this page, you can ", "After reading this page, you know ")
    )


def test_the_readme_is_short_and_shows_a_diagram_and_two_pictures() -> None:
    readme = Document(README)

    assert len(readme.text.splitlines()) <= _LINES
    assert len(readme.blocks("mermaid")) == 1
    assert len(readme.images) == 2
    assert readme.lines[:2] == ["pip install -e . && seller-platform demo", "pip install -e '.[test]' && pytest"]


def test_every_picture_is_shown_is_described_and_is_made_by_the_journey() -> None:
    shown = {
        (document.path.parent / path).resolve(): description
        for document in documents()
        for description, path in document.images
    }

    assert set(shown) == set((PAGES / "images").iterdir())
    assert {path.stem for path in shown} == set(PICTURES)
    assert all(shown.values())


@pytest.mark.parametrize("name", sections())
def test_every_generated_part_is_what_the_code_says_now(name: str) -> None:
    texts = [part for path in generated_documents() if (part := found_in(path.read_text(), name)) is not None]

    assert texts == [sections()[name]()], "run `python -m seller_platform_tests.regenerate`"


def test_every_setting_has_a_description() -> None:
    assert [field.alias for field in Settings.model_fields.values() if not field.description] == []
