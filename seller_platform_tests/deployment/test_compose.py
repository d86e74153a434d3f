"""Tests the compose file and its programs, with secrets as files and a read-only DAGSTER_HOME.

No container engine is needed: host names become loopback ports, and the image's folders become folders of the test.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from cryptography.fernet import Fernet

from seller_platform_tests.support.processes import environment, free_port
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.journey

TOP = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((TOP / "docker" / "compose.yaml").read_text())
PROGRAMS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "seller-platform"}
LONG_RUNNING = [name for name in PROGRAMS if name != "migrate"]


def test_the_compose_file_is_valid() -> None:
    subprocess.run(
        [_tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", TOP / "docker" / "compose.yaml"],
        check=True,
        capture_output=True,
    )


def test_the_dockerfile_passes_its_linter() -> None:
    command = [_tool("hadolint"), str(TOP / "docker" / "Dockerfile")]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (linted.returncode, linted.stdout) == (0, "")


def test_programs_run_without_privileges_and_cannot_write_to_their_image() -> None:
    for name, service in PROGRAMS.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
    assert "\nUSER 10001\n" in (TOP / "docker" / "Dockerfile").read_text()


def test_no_secret_is_in_the_compose_file() -> None:
    for name, service in COMPOSE["services"].items():
        for variable, value in service.get("environment", {}).items():
            assert variable.endswith("_FILE") or "PASSWORD" not in variable, f"{name}: {variable}"
            assert "postgresql://" not in str(value), f"{name}: {variable}"


def test_every_program_gets_the_budget_and_the_history_of_the_shell() -> None:
    for name, program in PROGRAMS.items():
        for passed_on in ("SELLER_API_REQUESTS_PER_DAY", "SELLER_PLATFORM_HISTORY_START"):
            assert program["environment"].get(passed_on, "") is None, name


def test_git_ignores_the_secrets_and_the_page_keeps_others_from_them() -> None:
    secrets = [f"docker/{secret['file'].removeprefix('./')}" for secret in COMPOSE["secrets"].values()]

    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *secrets], cwd=TOP, capture_output=True, text=True, check=False
    )

    assert ignored.stdout.split() == secrets
    assert "umask 077; mkdir docker/secrets" in (TOP / "seller_platform/docs/deploy.md").read_text()


def test_the_service_trusts_only_the_gateway_of_its_network() -> None:
    variables = COMPOSE["services"]["service"]["environment"]
    (network,) = COMPOSE["networks"]["default"]["ipam"]["config"]

    assert variables["SELLER_PLATFORM_SERVICE_TRUSTED_PROXIES"].endswith(f":-{network['gateway']}}}")
    assert "SELLER_PLATFORM_SERVICE_PUBLIC_URL" in variables
    assert COMPOSE["services"]["service"]["ports"] == ["127.0.0.1:8700:8700"]


@dataclass
class Machine:
    """The programs of the compose file on this machine."""

    folder: Path
    variables: dict[str, str]
    ports: dict[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def command(self, words: list[str]) -> list[str]:
        """Return a command of the file with this machine's ports, hosts and folders."""
        local = [word.replace("0.0.0.0", "127.0.0.1").replace("/etc/dagster", str(self.folder)) for word in words]
        for container, here in self.ports.items():
            local = [
                here if word == container else word.replace(f"127.0.0.1:{container}/", f"127.0.0.1:{here}/")
                for word in local
            ]
        return [_tool(local[0]), *local[1:]]

    def start(self, name: str) -> None:
        with (self.folder.parent / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                self.command(PROGRAMS[name]["command"]),
                env=self.variables,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a program as an engine does: terminate it, and kill it after a while."""
        process = self.running.pop(name)
        process.send_signal(number)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _kill_group(process.pid)

    def is_healthy(self, name: str) -> bool:
        check = PROGRAMS[name].get("healthcheck", {})
        if check.get("disable"):
            return self.running[name].poll() is None
        test = check["test"] if check else _image_check()
        command = self.command(test[1:])
        asked = subprocess.run(command, env=self.variables, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
        return asked.returncode == 0

    def await_health(self, *names: str) -> None:
        """Wait until programs are healthy.

        A health check is a process that imports Dagster, so a program is only asked once its port is open.
        """
        for port in self.ports.values():
            wait_for(partial(_is_open, int(port)), explain=lambda _: list(map(self._end_of_log, names)))
        for name in names:
            wait_for(partial(self.is_healthy, name), explain=partial(self._end_of_log, name), pause_seconds=2)

    def _end_of_log(self, name: str, _: object = None) -> str:
        return (self.folder.parent / f"{name}.log").read_text()[-2000:]


@pytest.fixture
def machine(database_url: str, tmp_path: Path) -> Iterator[Machine]:
    etc, secrets = tmp_path / "etc", tmp_path / "secrets"
    etc.mkdir()
    secrets.mkdir()
    ports = {container: str(free_port()) for container in ("8700", "3000", "4000")}
    (etc / "dagster.yaml").write_text(
        (TOP / "dagster.yaml").read_text() + (TOP / "docker" / "stateless.yaml").read_text()
    )
    workspace = (TOP / "docker" / "workspace.yaml").read_text()
    (etc / "workspace.yaml").write_text(workspace.replace("code-location", "127.0.0.1").replace("4000", ports["4000"]))
    etc.chmod(0o555)
    values = {"database_url": database_url, "secret_key": Fernet.generate_key().decode()}
    for secret in COMPOSE["x-program"]["secrets"]:
        (secrets / secret["target"]).write_text(values[secret["source"]])
    variables = environment(
        tmp_path / "home",
        DAGSTER_HOME=str(etc),
        SELLER_PLATFORM_SECRETS_DIR=str(secrets),
        SELLER_PLATFORM_HISTORY_START="2026-01-01",
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    )
    built = Machine(etc, variables, ports)
    yield built
    for name in list(built.running):
        built.end(name, signal.SIGKILL)


@pytest.mark.nightly  # four programs that import Dagster, and their health checks
def test_programs_of_the_compose_file_run_and_may_be_restarted(machine: Machine) -> None:
    subprocess.run(machine.command(PROGRAMS["migrate"]["command"]), env=machine.variables, check=True)
    for name in LONG_RUNNING:
        machine.start(name)
    machine.await_health(*LONG_RUNNING)

    machine.end("daemon")
    machine.start("daemon")
    machine.end("code-location", signal.SIGKILL)
    machine.start("code-location")
    # A check is a process that imports Dagster: the others are still healthy, and the web server answers below.
    machine.await_health("daemon", "code-location")

    webserver = f"http://127.0.0.1:{machine.ports['3000']}"
    query = "{ repositoriesOrError { ... on RepositoryConnection { nodes { location { name } } } } }"
    answer = httpx.post(f"{webserver}/graphql", json={"query": query}, timeout=PATIENCE_SECONDS).json()
    assert [node["location"]["name"] for node in answer["data"]["repositoriesOrError"]["nodes"]] == ["seller_platform"]
    mounts = {Path(mount.partition(":")[0]) for mount in COMPOSE["x-program"]["tmpfs"]}
    writable = {mount.name for mount in mounts if mount.parent == Path("/etc/dagster")}
    assert {each.name for each in machine.folder.iterdir()} <= {"dagster.yaml", "workspace.yaml"} | writable


def _image_check() -> list[str]:
    """Return the health check of the image, which checks the service."""
    dockerfile = (TOP / "docker" / "Dockerfile").read_text()
    command: list[str] = yaml.safe_load(dockerfile.rpartition("CMD ")[2])
    return ["CMD", *command]


def _is_open(port: int) -> bool:
    """Return whether a port of the loopback interface accepts connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _tool(name: str) -> str:
    """Return a program installed beside this Python."""
    path = shutil.which(name, path=str(Path(sys.executable).parent))
    assert path is not None, f"{name} is not installed beside {sys.executable}; install the extra `test`"
    return path
