"""Loads the lists with PyAirbyte, by a declarative manifest, into a PostgresCache."""

import json
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import airbyte  # type: ignore[import-not-found]  # it is no dependency of the project
from airbyte.caches import PostgresCache  # type: ignore[import-not-found]  # see above


def main() -> None:
    """Load every list; one with a key is merged by it, one without is replaced."""
    job = json.loads(Path(sys.argv[1]).read_bytes())
    url = urlsplit(job["database"])
    cache = PostgresCache(
        host="localhost",
        port=5432,
        username=url.username,
        password="none",  # the server asks the kernel who connects
        # The URL that PyAirbyte makes of these goes on with the folder of the server's socket.
        database=f"{url.path[1:]}?host={parse_qs(url.query)['host'][0]}",
        schema_name="lists",
        cache_dir=Path(job["folder"]),
    )
    source = airbyte.get_source(
        "source-seller",
        config={
            "url": job["url"],
            "accounts": list(job["accounts"]),
            "months": [":".join(days) for days in job["months"]],
        },
        source_manifest=Path(__file__).with_name("airbyte_manifest.yaml"),
        streams="*",
    )
    source.read(cache=cache, write_strategy="auto", force_full_refresh=True)


if __name__ == "__main__":
    main()
