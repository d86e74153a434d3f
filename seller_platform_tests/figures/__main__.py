"""Prints a figure, or lists all of them."""

import argparse
import ast
import importlib
import inspect
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from seller_platform_tests.figures.results import Samples

FIGURES = {
    path.stem: str(ast.get_docstring(ast.parse(text)))
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if "\ndef measure(" in (text := path.read_text())
}
"""The docstring of each figure, by name."""


def main() -> int:
    """Print the figure; the exit code is 1 if a promise is broken."""
    figures = argparse.ArgumentParser(prog="python -m seller_platform_tests.figures", description=__doc__)
    names = figures.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, docstring in FIGURES.items():
        one = names.add_parser(
            name,
            help=docstring.partition("\n")[0],
            description=docstring,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name in sys.argv[1:2]:
            work = importlib.import_module(f"seller_platform_tests.figures.{name}").measure
            one.epilog = inspect.getdoc(work)
            for option, parameter in inspect.signature(work).parameters.items():
                flag, default = f"--{option.replace('_', '-')}", parameter.default
                one.add_argument(flag, type=type(default), default=default, help=f"default: {default}")
        one.add_argument("--json", action="store_true", help="print one document instead of a table")
    chosen = vars(figures.parse_args())
    as_json = chosen.pop("json")
    del chosen["name"]
    result: Samples = work(**chosen)
    if as_json:
        print(json.dumps(asdict(result), default=str))
    else:
        Console(width=140).print(result.table)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
