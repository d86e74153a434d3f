"""Full disks: servers without room, loads that cannot write their spool, and token rotations without room."""

import os
import resource
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import text

from seller_platform.contract import dataset_named
from seller_platform.errors import DatabaseFullError, SellerPlatformError
from seller_platform.ingest.loads.slices import SliceRequest, load_slice
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support import raw_server
from seller_platform_tests.support.broken_connection import BERLIN, FEBRUARY, Broken
from seller_platform_tests.support.installation import Site, begin
from seller_platform_tests.support.processes import environment, run
from seller_platform_tests.support.raw_server import Fault
from seller_platform_tests.support.stored_rows import count_rows
from seller_platform_tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Return a function that mounts a file system of a size and returns its folder."""
    mounted: list[Path] = []

    def mount(size: int) -> Path:
        folder = tmp_path / f"disk-{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        if refused.returncode != 0:
            pytest.skip(f"no file system can be mounted here: {refused.stderr.strip() or 'mount failed'}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk of a folder with one file, and return that file."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return filler
    raise AssertionError(f"the disk of {folder} has no end")


def processes_on(disk: Path) -> list[str]:
    """Return the processes whose working folder lies on a disk, as those of a server do."""
    running = psutil.process_iter(["cmdline", "cwd"])
    return [" ".join(each.info["cmdline"]) for each in running if Path(each.info["cwd"] or "/").is_relative_to(disk)]


def widened(width: int) -> Fault:
    """Lengthen the rows of a page, so that a slice does not fit into memory."""

    def widen(document: dict[str, Any]) -> dict[str, Any]:
        for row in document["data"]:
            row["product_name"] = "x" * width
        return document

    return raw_server.rewritten(widen)


def stored(broken: Broken) -> tuple[int, int]:
    """Return the number of stored orders and of receipts."""
    return count_rows(broken.database, "seller.orders"), count_rows(broken.database, "platform.loads")


def load_orders(pipe: Any, site: Site, folder: Path, largest_file: int) -> None:
    """Load the orders of February, and send the receipt or the error.

    Args:
        folder: Where temporary files are written.
        largest_file: The limit of a file in bytes. A write beyond it fails as on a full disk.
    """
    tempfile.tempdir = str(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
    try:
        with site.open() as (api, database):
            request = SliceRequest(dataset_named("orders"), BERLIN.key, FEBRUARY)
            pipe.send(load_slice(api, database, BERLIN, request, FEBRUARY, run_id=None))
    except SellerPlatformError as error:
        pipe.send(error)


def load_wide(broken: Broken, folder: Path, *, largest_file: int = resource.RLIM_INFINITY) -> Any:
    """Load about 700 orders of 16 KiB each in a process of its own, which alone is affected by a full disk."""
    broken.server.plan = lambda request: widened(16 << 10) if request.path == "/api/sales/orders" else None
    process, pipe = begin(load_orders, broken.site, folder, largest_file)
    result = pipe.recv()
    process.join()
    return result


def test_a_full_disk_stores_nothing_and_names_the_folder(broken: Broken, mount: Callable[[int], Path]) -> None:
    disk = mount(8 << 20)

    refused = load_wide(broken, disk)

    assert refused.exit_code == 1
    assert f"orders of {BERLIN.key}" in str(refused)
    assert f"kept in {disk} while it is read: No space left on device" in str(refused)
    assert "name another folder by TMPDIR, and try again" in str(refused)
    assert stored(broken) == (0, 0)
    assert list(disk.iterdir()) == []


@pytest.mark.usefixtures("open_to_the_server")
def test_a_command_on_a_full_disk_names_it_and_leaves_no_server(mount: Callable[[int], Path], tmp_path: Path) -> None:
    disk = mount(100 << 20)
    EmbeddedServer(disk / "home" / "postgres", root_data=disk / "servers").close()
    filler = fill(disk)
    os.truncate(filler, filler.stat().st_size - (512 << 10))
    variables = environment(disk / "home", SELLER_PLATFORM_ROOT_DATA_FOLDER=str(disk / "servers"))

    refused = run(["migrate"], variables)
    left = processes_on(disk)
    filler.unlink()
    ended = run(["migrate"], variables)

    assert (refused.returncode, left) == (1, []), refused.stderr
    assert f"the disk of PostgreSQL at {disk}" in refused.stderr
    assert "Make room on the disk of the server and try again" in refused.stderr
    assert ended.returncode == 0, ended.stderr


@pytest.mark.usefixtures("open_to_the_server")
@pytest.mark.parametrize("room", [0, 20 << 20], ids=lambda size: f"{size} bytes")
def test_a_disk_that_fills_up_while_the_server_runs_is_named(mount: Callable[[int], Path], room: int) -> None:
    """With 20 MiB it is the write-ahead log that finds no room: then the server stops."""
    disk = mount(120 << 20)
    server = EmbeddedServer(disk / "home", root_data=disk / "servers")
    rows = "INSERT INTO public.big SELECT repeat(md5(number::text), 30) FROM generate_series(1, 60000) AS number"
    with Database(server.database("shop")) as database:
        database.execute(text("CREATE TABLE public.big (content text)"))
        filler = fill(disk)
        os.truncate(filler, filler.stat().st_size - room)

        with pytest.raises(DatabaseFullError, match=f"{disk}/.* is full"), database.begin() as connection:
            connection.execute(text(rows))
        if room:
            wait_for(lambda: not processes_on(disk))
            with pytest.raises(DatabaseFullError), database.begin():
                pass
    server.close()

    assert processes_on(disk) == []


def test_a_slice_that_no_file_can_take_is_loaded_by_the_next_run(broken: Broken, tmp_path: Path) -> None:
    refused = load_wide(broken, tmp_path, largest_file=1 << 20)
    left = stored(broken)

    receipt = load_wide(broken, tmp_path)

    assert (refused.exit_code, left) == (1, (0, 0))
    assert f"kept in {tmp_path} while it is read: File too large" in str(refused)
    assert receipt.verdict == "match"
    assert stored(broken) == (receipt.rows, 1)
