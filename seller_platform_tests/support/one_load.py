"""Loads one slice in a separate process, `python -m seller_platform_tests.support.one_load`.

The process reads from its standard input what to load. A full disk affects only this process, not the tests.
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
from seller_platform.ingest.loads.slices import SliceRequest, load_slice
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform_tests.support.installation import Site
from seller_platform_tests.support.waiting import PATIENCE_SECONDS


@dataclass(frozen=True)
class Ended:
    """The end of the process: facts of the receipt, or the error's message and code."""

    code: int
    rows: int = 0
    verdict: str = ""
    digest: str = ""
    message: str = ""


def load_apart(
    site: Site,
    account: KnownAccount,
    dataset: str,
    window: Window,
    *,
    environment: Mapping[str, str] | None = None,
    largest_file: int | None = None,
) -> Ended:
    """Load a slice in a separate process, and return how it ended.

    Args:
        environment: Variables of the process, added to those of this one.
        largest_file: The limit of its files in bytes. A write beyond it fails as on a full disk.
    """
    load = {
        "database_url": site.database_url,
        "home": str(site.home),
        "upstream": asdict(site.upstream),
        "key": account.key,
        "account": asdict(account.account),
        "dataset": dataset,
        "window": [str(window.start), str(window.end)],
        "largest_file": largest_file,
    }
    ended = subprocess.run(
        [sys.executable, "-m", __spec__.name],
        input=json.dumps(load),
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert ended.stdout, ended.stderr
    return Ended(**json.loads(ended.stdout))


def _load(load: Mapping[str, Any]) -> Ended:
    if load["largest_file"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (load["largest_file"], resource.RLIM_INFINITY))
    site = Site(load["database_url"], Path(load["home"]), Upstream(**load["upstream"]))
    account = KnownAccount(load["key"], "default", Account(**load["account"]))
    window = Window(*map(date.fromisoformat, load["window"]))
    try:
        with site.open() as (api, database):
            request = SliceRequest(dataset_named(load["dataset"]), account.key, window)
            receipt = load_slice(api, database, account, request, window, run_id=None)
    except SellerPlatformError as error:
        return Ended(error.exit_code, message=str(error))
    return Ended(0, receipt.rows, receipt.verdict, receipt.digest.hex())


if __name__ == "__main__":
    print(json.dumps(asdict(_load(json.load(sys.stdin)))))
