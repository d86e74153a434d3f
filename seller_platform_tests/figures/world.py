"""Plays the matrix of transports, bodies and environments: what the world sends is stored as it means, or not at all.

Each cell is a run of `sync`, `report load` or `report download` against bytes on a socket, judged by the stored rows,
the exit code and the message (`seller_platform_tests.faults.world`).
"""

import time
from collections.abc import Mapping

from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.faults.world.bodies import BODIES
from seller_platform_tests.faults.world.cells import cells, chosen, open_world
from seller_platform_tests.faults.world.environments import ENVIRONMENTS
from seller_platform_tests.faults.world.transports import TRANSPORTS
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.installation import temporary_server
from seller_platform_tests.support.postgres import TEMPLATE, Databases


def measure(*, cells_played: int = 0, seed: int = 1) -> Promises:
    """Options: how many cells are played, 0 for all, and the seed that chooses them."""
    played, began = chosen(cells_played, seed) if cells_played else list(cells()), time.perf_counter()
    with temporary_server() as (server, folder):
        with Database(server.database(TEMPLATE)) as template:
            template.migrate(partitions=2)
        (home := folder / "home").mkdir()
        with open_world(Databases(server), home) as play:
            wrong = [problem for cell in played if (problem := play(cell))]
    seconds = time.perf_counter() - began
    axes: dict[str, Mapping[str, object]] = {"transports": TRANSPORTS, "bodies": BODIES, "environments": ENVIRONMENTS}
    return Promises(
        f"What the world sends, in {seconds / len(played):.2f} s a cell",
        [
            *(Figure(name, len(values)) for name, values in axes.items()),
            Figure("cells of the matrix", len(list(cells())), "at least 120", len(list(cells())) >= 120),
            Figure("cells played", len(played)),
            Figure("cells with other rows, exit codes or words", len(wrong), "0", not wrong),
            *(Figure(problem, "", "right", is_kept=False) for problem in wrong),
        ],
    )
