"""Tests nginx with the configuration of `docker`: what one network sends too much costs the others nothing."""

import getpass
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from seller_platform_tests.support.processes import end_group, free_port
from seller_platform_tests.support.raw_server import Answer, serving
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

CONFIGURATION = Path(__file__).parents[2] / "docker" / "nginx.conf"


@contextmanager
def nginx(folder: Path, upstream_port: int) -> Iterator[str]:
    """Run nginx in a folder, and yield its URL. Clients name their network by X-Forwarded-For."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/opt/homebrew/bin")
    if program is None:
        skip_except_in_ci("nginx is not installed: it is the package nginx-light of Debian")
    port = free_port()
    include = folder / "nginx"
    include.mkdir()
    (folder / CONFIGURATION.name).symlink_to(CONFIGURATION)
    (include / "port.conf").write_text(
        f"listen 127.0.0.1:{port};\nset_real_ip_from 127.0.0.1;\nreal_ip_header X-Forwarded-For;\n"
    )
    (include / "upstream.conf").write_text(f"server 127.0.0.1:{upstream_port} max_fails=0;\n")
    # Its workers would else be another user, who may not write here.
    settings = f"daemon off; user {getpass.getuser()};"
    words = [program, "-p", str(folder), "-e", "stderr", "-c", str(folder / CONFIGURATION.name), "-g", settings]
    with (folder / "nginx.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        wait_for(lambda: process.poll() is not None or _answers(f"http://127.0.0.1:{port}"))
        assert process.poll() is None, (folder / "nginx.log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        end_group(process)


def _answers(url: str) -> bool:
    try:
        return bool(httpx.get(f"{url}/service-status", timeout=5).status_code)
    except httpx.TransportError:
        return False


pytestmark = pytest.mark.journey


@pytest.mark.parametrize(("first", "second"), [("192.0.2.1", "192.0.2.2"), ("2001:db8:0:1::1", "2001:db8:0:2::1")])
def test_a_network_has_its_requests_and_refusals_are_errors_of_the_api(tmp_path: Path, first: str, second: str) -> None:
    def ask(_: int) -> httpx.Response:
        return httpx.get(f"{url}/login", headers={"X-Forwarded-For": first}, timeout=PATIENCE_SECONDS)

    with nginx(tmp_path, free_port()) as url, ThreadPoolExecutor(80) as threads:
        asked = threads.map(ask, range(160))
        time.sleep(1)
        other = httpx.get(f"{url}/login", headers={"X-Forwarded-For": second}, timeout=PATIENCE_SECONDS)
        answers = list(asked)

    refused, passed = (next(each for each in answers if each.status_code == status) for status in (429, 503))
    assert (refused.json()["status"], refused.json()["code"], refused.headers["retry-after"]) == ("error", 429, "1")
    assert {answer.status_code for answer in answers} == {429, 503}  # no service is there
    assert min(answer.elapsed.total_seconds() for answer in answers if answer.status_code == 429) > 0.9
    assert (passed.json()["code"], passed.headers["retry-after"]) == (503, "5")
    assert other.status_code == 503


def test_what_is_too_large_is_refused_before_the_service(tmp_path: Path) -> None:
    with nginx(tmp_path, free_port()) as url, httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
        answers = [
            client.get("/user/me", headers={"X": "x" * 40_000}),
            client.get("/user/me", params={"x": "x" * 40_000}),
            client.post("/reports/request", content=b"x" * (2 << 20)),
        ]

    assert [answer.json()["code"] for answer in answers] == [400, 414, 413]
    assert [answer.status_code for answer in answers] == [400, 414, 413]


def test_documents_are_compressed_and_pages_and_tokens_are_not(tmp_path: Path) -> None:
    document = Answer.of({"text": "x" * 5_000})
    with serving(lambda _: document) as service, nginx(tmp_path, int(service.url.rpartition(":")[2])) as url:
        paths = ("/openapi.json", "/docs", "/login", "/oauth/token")
        answers = [httpx.get(f"{url}{path}", timeout=PATIENCE_SECONDS) for path in paths]

    assert [answer.headers.get("content-encoding") for answer in answers] == ["gzip", "gzip", None, None]
