"""nginx from the packages of the system, with the configuration of `docker`, before a service on this machine."""

import getpass
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from seller_platform_tests.support.processes import end_group, free_port
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.waiting import wait_for

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
