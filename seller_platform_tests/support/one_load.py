"""One load in a process of its own, `python -m seller_platform_tests.support.one_load`, which reads what to load.

What breaks a process as a whole, a full disk or a clock that jumps, strikes this one and not the tests.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.errors import SellerPlatformError
from seller_platform.ingest.connections.upstream import Upstream
from seller_platform.ingest.loads.slices import load_slice
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform_tests.support.installation import Site


@dataclass(frozen=True)
class Ended:
    """How the process ended: with a receipt, or with what a command would say and exit with."""

    code: int
    rows: int = 0
    verdict: str = ""
    digest: str = ""
    told: str = ""


def load_apart(
    site: Site,
    known: KnownAccount,
    dataset: str,
    window: Window,
    *,
    environment: Mapping[str, str] | None = None,
    largest_file: int | None = None,
) -> Ended:
    """Load a slice in a process of its own, and return how it ended.

    Args:
        environment: What its environment has beside ours.
        largest_file: Files cannot grow beyond so many bytes, as on a disk that is full.
    """
    wanted = {
        "database_url": site.database_url,
        "home": str(site.home),
        "upstream": asdict(site.upstream),
        "key": known.key,
        "account": asdict(known.account),
        "dataset": dataset,
        "window": [str(window.start), str(window.end)],
        "largest_file": largest_file,
    }
    ended = subprocess.run(
        [sys.executable, "-m", __spec__.name],
        input=json.dumps(wanted),
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.stdout, ended.stderr
    return Ended(**json.loads(ended.stdout))


def _load(wanted: Mapping[str, Any]) -> Ended:
    if wanted["largest_file"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (wanted["largest_file"], resource.RLIM_INFINITY))
    site = Site(wanted["database_url"], Path(wanted["home"]), Upstream(**wanted["upstream"]))
    known = KnownAccount(wanted["key"], "default", Account(**wanted["account"]))
    window = Window(*map(date.fromisoformat, wanted["window"]))
    try:
        with site.open() as (api, database):
            receipt = load_slice(api, database, known, dataset_named(wanted["dataset"]), window, run_id=None)
    except SellerPlatformError as error:
        return Ended(error.exit_code, told=str(error))
    return Ended(0, receipt.rows, receipt.verdict, receipt.digest.hex())


if __name__ == "__main__":
    print(json.dumps(asdict(_load(json.load(sys.stdin)))))
