"""Plays cells of the matrix: 40 of them always, all of them every night."""

from collections.abc import Callable, Iterator

import pytest

from seller_platform_tests.faults.world.cells import Cell, cells, chosen, open_world
from seller_platform_tests.faults.world.transports import TRANSPORTS
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.watchdog import folder_of_the_run

pytestmark = pytest.mark.slow

_CHOSEN = chosen(40)


@pytest.fixture(scope="module")
def play(databases: Databases) -> Iterator[Callable[[Cell], str]]:
    with temporary_folder(folder_of_the_run()) as folder, open_world(databases, folder) as play:
        yield play


def test_forty_cells_have_each_value_of_each_axis_and_all_cells_each_pair() -> None:
    matrix = list(cells())

    assert len(matrix) >= 120
    assert {it for cell in _CHOSEN for it in enumerate(cell)} == {it for cell in matrix for it in enumerate(cell)}


@pytest.mark.nightly
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_is_sent_in_a_way_is_stored_in_every_cell(transport: str, play: Callable[[Cell], str]) -> None:
    assert [wrong for cell in cells() if cell.transport == transport and (wrong := play(cell))] == []


@pytest.mark.parametrize("cell", _CHOSEN, ids=str)
def test_what_the_world_sends_is_stored_as_it_means_or_not_at_all(cell: Cell, play: Callable[[Cell], str]) -> None:
    assert play(cell) == ""
