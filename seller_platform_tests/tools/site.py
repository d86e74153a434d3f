"""Builds the documentation site: `python -m seller_platform_tests.tools.site [FOLDER]`, by default into `build/site`.

Its pages are the files that GitHub and `seller-platform docs` show. They are copied into a temporary folder, with links
that fit their addresses on the site and with diagrams as images; Zensical makes HTML of them. The pages request nothing
from other servers.
"""

import argparse
import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import mmdr

from seller_platform.cli.pages import FOLDER, PAGES
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.tools.lock import TOP, pyproject

_OTHERS = (
    "CHANGELOG.md",
    ".github/CONTRIBUTING.md",
    ".github/ARCHITECTURE.md",
    ".github/MECHANISMS.md",
    ".github/SECURITY.md",
)
COMMENT = re.compile(r"^<!-- .* -->\n", re.MULTILINE)
"""Where a generated part of a page begins or ends."""

_BLOCK_OR_TARGET = re.compile(
    r"^```(?P<language>\w*)\n(?P<code>.*?)^```$|(?<=\]\()(?!https?:|#)(?P<path>[^)#\s]+)", re.MULTILINE | re.DOTALL
)
# More contrast for the open page in the navigation; in tables, names that are not broken while there is room.
_STYLES = """\
:root { --md-accent-fg-color: #3f51b5; }
.md-grid { max-width: 70rem; }
.md-typeset td { overflow-wrap: anywhere; }
@media (min-width: 60em) { .md-typeset td:nth-child(-n+2) code { overflow-wrap: normal; word-break: normal; } }
"""
_DESCRIPTION = re.compile(r"^ *accDescr: *(.+)$", re.MULTILINE)


@cache
def addresses() -> Mapping[Path, Path]:
    """Return the path of each page and image in the folder that the generator reads, by its file."""
    listed = {page.path: Path(f"{page.name}.md") for page in PAGES}
    others = {TOP / name: Path(Path(name).name.lower()) for name in _OTHERS}
    images = {path: path.relative_to(FOLDER) for path in (FOLDER / "images").iterdir()}
    figures = {TOP / "seller_platform_tests" / "figures" / "peers.json": Path("peers.json")}
    return {TOP / "README.md": Path("index.md"), **listed, **others, **images, **figures}


def build(folder: Path, *, url: str | None = None, repository: str | None = None) -> None:
    """Write the site into a folder, whose content is replaced.

    Args:
        url: Where the site is published; without it, the page of status 404 works only at the top of a host.
        repository: The URL that is linked below every page.
    """
    with temporary_folder() as work:
        for source, address in addresses().items():
            target = work / "docs" / address
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.suffix == ".md":
                target.write_text(_page(source, target), encoding="utf-8")
            else:
                shutil.copy(source, target)
        (work / "docs" / "site.css").write_text(_STYLES, encoding="utf-8")
        # JSON is YAML, too.
        (work / "site.yml").write_text(json.dumps(_configuration(url, repository)), encoding="utf-8")
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "site.yml"]
        subprocess.run(command, cwd=work, check=True)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(work / "site", folder)


def _page(source: Path, target: Path) -> str:
    """Return the text of a page of the site; its diagrams are written beside it."""

    def replaced(match: re.Match[str]) -> str:
        if match["language"] == "mermaid":
            description = _DESCRIPTION.search(match["code"])
            if description is None:
                raise ValueError(
                    f"{source.relative_to(TOP)} has a diagram without accDescr, its text for screen readers"
                )
            image = target.with_name(f"{target.stem}-{match.start()}.svg")
            image.write_text(mmdr.render(match["code"]).svg(), encoding="utf-8")
            return f"[![{description[1]}]({image.name})]({image.name})"
        if match["path"] is None:
            return match[0]
        linked = (source.parent / match["path"]).resolve()
        if linked not in addresses():
            raise ValueError(f"{source.relative_to(TOP)} links {match['path']}, which the site does not have")
        return os.path.relpath(addresses()[linked], addresses()[source].parent)

    return _BLOCK_OR_TARGET.sub(replaced, COMMENT.sub("", source.read_text(encoding="utf-8")))


def _configuration(url: str | None, repository: str | None) -> dict[str, Any]:
    """Return the generator's configuration."""
    of_project = [str(addresses()[TOP / name]) for name in _OTHERS]
    of_guide = [f"{page.name}.md" for page in PAGES if not page.name.startswith("reference")]
    of_reference = [f"{page.name}.md" for page in PAGES if page.name.startswith("reference/")]
    return {
        "site_name": "Seller Platform",
        "site_url": url,
        "site_description": pyproject()["project"]["description"],
        "nav": [
            {"Start": "index.md"},
            {"Guide": of_guide},
            {"Reference": [{"Overview": "reference.md"}, *of_reference]},
            {"Project": of_project},
        ],
        # The generator's place for a text below every page.
        "copyright": f'<a href="{html.escape(repository)}">Repository</a>' if repository else None,
        # The pages work as files, too.
        "use_directory_urls": False,
        "theme": {
            # Fonts of the reader's system; others would be requested from a server of Google.
            "font": False,
            "features": ["navigation.sections", "navigation.indexes", "navigation.footer", "navigation.top"],
        },
        "extra_css": ["site.css"],
        # Names of settings and columns are words.
        "plugins": [{"search": {"separator": '[\\s\\-,:!=\\[\\]()"`/]+|\\.(?!\\d)'}}],
        # What GitHub's Markdown has, and nothing else.
        "markdown_extensions": {
            "tables": {},
            "sane_lists": {},
            "toc": {"permalink": True, "slugify": {"object": "pymdownx.slugs.slugify", "kwds": {"case": "lower"}}},
            "pymdownx.highlight": {"pygments_lang_class": True},
            "pymdownx.superfences": {},
        },
    }


def main() -> None:
    """Build the site and print its folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=TOP / "build" / "site")
    parser.add_argument("--url", help="The URL under which it is published.")
    parser.add_argument("--repository", help="The URL of the repository, linked below every page.")
    arguments = parser.parse_args()
    build(arguments.folder, url=arguments.url, repository=arguments.repository)
    print(arguments.folder)


if __name__ == "__main__":
    main()
