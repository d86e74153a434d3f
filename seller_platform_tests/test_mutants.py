"""Tests the table of modules whose mistakes tests must notice, and the verdicts on survivors."""

from pathlib import Path

import pytest

import seller_platform
from seller_platform_tests.tools.mutants import TESTS_OF, verdicts

_PRODUCT, _TESTS = Path(seller_platform.__file__).parent, Path(__file__).parent


@pytest.mark.parametrize("module", TESTS_OF)
def test_a_module_and_its_tests_exist(module: str) -> None:
    assert _PRODUCT.joinpath(*module.split(".")).with_suffix(".py").exists()
    assert [path for path in TESTS_OF[module] if not (_TESTS / path.partition("::")[0]).exists()] == []


def test_each_verdict_is_of_a_line_that_exists_and_has_a_reason() -> None:
    wrong = []
    for change, reason in verdicts().items():
        module = change.split()[0]
        source = _PRODUCT.joinpath(*module.split(".")).with_suffix(".py").read_text()
        removed = [line[1:].strip() for line in change.splitlines() if line.startswith("-")]
        if module not in TESTS_OF or not reason[0].isalpha() or any(line not in source for line in removed):
            wrong.append(change)
    assert wrong == []
