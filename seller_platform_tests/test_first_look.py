"""Tests how the notebook of the package is stored; the journey of the demo runs it."""

import json
from importlib.resources import files

NOTEBOOK = json.loads((files("seller_platform") / "docs" / "first_look.ipynb").read_text("utf-8"))


def test_the_notebook_is_stored_without_results() -> None:
    cells = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]

    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in NOTEBOOK["cells"]}) == len(NOTEBOOK["cells"])
