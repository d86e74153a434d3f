"""The pinned versions of the tools, their environments, and the job that a pipeline gets."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from seller_platform.contract import dataset_named
from seller_platform_tests.figures.free_service import PER_PAGE, months
from seller_platform_tests.figures.loading import DATASETS

AS_OF = "2026-11-26"
"""The day of the pins: packages that the pinned ones need are the newest of this day."""

PACKAGES = {
    "dlt": ("dlt[postgres,parquet]==1.31.0", "adbc-driver-postgresql==1.13.0"),
    "singer": ("singer-sdk[msgspec]==0.54.9", "meltanolabs-target-postgres==0.8.1"),
    "PyAirbyte": ("airbyte==0.71.3",),
}
"""What each peer's environment is made of; each was the newest release on the day of the pins."""

_TOP = Path(__file__).parents[3]


def install(name: str, folder: Path) -> Path:
    """Install a tool into an environment of its own, and return the folder of its programs.

    Args:
        name: A peer, or `sync` for this clone with the versions of the image.
    """
    python = folder / name / "bin" / "python"
    if python.exists():
        return python.parent
    _uv("venv", "--python", sys.executable, str(folder / name))
    into = ("pip", "install", "--python", str(python))
    if name == "sync":
        _uv(*into, "--no-deps", "--require-hashes", "--requirement", str(_TOP / "docker" / "requirements.lock"))
        _uv(*into, "--no-deps", str(_TOP))
    else:
        _uv(*into, "--exclude-newer", AS_OF, *PACKAGES[name])
    return python.parent


def _uv(*arguments: str) -> None:
    variables = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    subprocess.run(["uv", "--quiet", *arguments], check=True, capture_output=True, text=True, env=variables)


@dataclass(frozen=True)
class Job:
    """What a pipeline has to load."""

    url: str
    database: str
    folder: Path
    account_count: int
    month_count: int

    @property
    def accounts(self) -> dict[str, str]:
        """The key of each account, by its number upstream."""
        return {f"{number}": f"us-{number}" for number in range(1, self.account_count + 1)}

    @property
    def days(self) -> list[tuple[str, str]]:
        """The first and the last day of each month."""
        return [(f"{month.start}", f"{month.last_day}") for month in months(self.month_count)]

    def write(self) -> Path:
        """Write the document that pipelines read, and return its path.

        Its members are `url`, `database`, `folder`, `accounts`, `months`, `per_page`, and `lists`: path, key and
        columns with their kinds, by name. A list without a key may have equal rows.
        """
        lists = {
            dataset.name: {
                "path": dataset.path,
                "key": [column.name for column in dataset.columns if column.key],
                "columns": {column.name: column.kind.value for column in dataset.columns},
            }
            for dataset in map(dataset_named, DATASETS)
        }
        self.folder.mkdir(parents=True)
        document = {
            "url": self.url,
            "database": self.database,
            "folder": str(self.folder),
            "accounts": self.accounts,
            "months": self.days,
            "per_page": PER_PAGE,
            "lists": lists,
        }
        path = self.folder / "job.json"
        path.write_text(json.dumps(document))
        return path
