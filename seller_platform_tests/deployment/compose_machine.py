"""The programs of the compose files as processes of this machine.

No container engine is needed: host names become loopback ports, and the image's folders become folders of the test.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from cryptography.fernet import Fernet

from seller_platform_tests.support.processes import end_group, environment, free_port
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

TOP = Path(__file__).parents[2]
_DOCKER = TOP / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((_DOCKER / "compose.yaml").read_text())
IMAGE = "seller-platform"


def services_with_celery() -> dict[str, dict[str, Any]]:
    """Return the services of both compose files, merged as the compose specification says."""
    services: dict[str, dict[str, Any]] = {name: dict(service) for name, service in COMPOSE["services"].items()}
    for name, service in yaml.safe_load((_DOCKER / "compose.celery.yaml").read_text())["services"].items():
        extended = service.get("extends", {}).get("service", name)
        merged = dict(COMPOSE["services"].get(extended, {}))
        for key, value in service.items():
            match merged.get(key):
                case dict() as former if key != "depends_on":
                    merged[key] = {**former, **value}
                case list() as former if key != "command":
                    merged[key] = [*former, *value]
                case _:
                    merged[key] = value
        services[name] = merged
    return services


@dataclass
class Machine:
    """The programs of the compose files on this machine.

    Attributes:
        folder: Stands for `/etc/dagster` of the image.
        variables: The environment of all programs; services have further variables.
        ports: The loopback port of each port of a container.
    """

    folder: Path
    variables: dict[str, str]
    ports: dict[str, str]
    services: Mapping[str, dict[str, Any]] = field(default_factory=lambda: COMPOSE["services"])
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def command(self, words: list[str]) -> list[str]:
        """Return a command of the file with this machine's ports, hosts and folders."""
        program = shutil.which(words[0], path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        assert program is not None, f"{words[0]} is not installed; install the extra `test`"
        return [program, *map(self._here, words[1:])]

    def environment_of(self, service: str) -> dict[str, str]:
        """Return the environment of a service, with variables and defaults of the shell."""
        given = self.services[service].get("environment", {})
        values = {name: value for name, value in given.items() if value is not None}
        return {**self.variables, **{name: self._here(self._interpolated(value)) for name, value in values.items()}}

    def start(self, name: str, *more: str, service: str | None = None) -> None:
        """Start a program.

        Args:
            more: Further words of its command, for what a container has of its own.
            service: Its service, if the program is one of several of a service.
        """
        service = service or name
        with (self.folder.parent / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*self.command(self.services[service]["command"]), *more],
                env=self.environment_of(service),
                cwd=self.folder.parent,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a program as an engine does: terminate it, and kill it after a while."""
        process = self.running.pop(name)
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        end_group(process)

    def kill(self, name: str) -> None:
        """Kill all processes of a program at once, as an engine does with a container."""
        end_group(self.running.pop(name))

    def is_healthy(self, name: str) -> bool:
        check = self.services[name].get("healthcheck", {})
        if check.get("disable"):
            return self.running[name].poll() is None
        # The health check of the image checks the service.
        of_image = (_DOCKER / "Dockerfile").read_text().rpartition("CMD ")[2]
        asked = subprocess.run(
            self.command(check["test"][1:] if check else yaml.safe_load(of_image)),
            env=self.environment_of(name),
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return asked.returncode == 0

    def await_health(self, *names: str) -> None:
        """Wait until programs are healthy.

        A health check is a process that imports Dagster, so a program is only asked once its port is open.
        """
        for name in names:
            for word in self.services[name].get("command", ()):
                if word in self.ports:
                    wait_for(partial(_is_open, int(self.ports[word])), explain=partial(self.end_of_log, name))
            wait_for(partial(self.is_healthy, name), explain=partial(self.end_of_log, name), pause_seconds=2)

    def end_of_log(self, name: str, _: object = None) -> str:
        return (self.folder.parent / f"{name}.log").read_text()[-3000:]

    def logs(self) -> dict[str, str]:
        """Return the ends of the logs of all programs, by name."""
        return {name: self.end_of_log(name) for name in self.running}

    def _here(self, word: str) -> str:
        local = word.replace("0.0.0.0", "127.0.0.1").replace("/etc/dagster", str(self.folder))
        for container, here in self.ports.items():
            if word == container:
                return here
            local = re.sub(rf"(//[^/]*?)(127\.0\.0\.1|redis):{container}/", rf"\g<1>127.0.0.1:{here}/", local)
        return local

    def _interpolated(self, value: str) -> str:
        return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: self.variables.get(found[1]) or found[2], value)


@contextmanager
def open_machine(
    database_url: str, folder: Path, services: Mapping[str, dict[str, Any]], **variables: str
) -> Iterator[Machine]:
    """Write the files of the image and the secrets into a folder, and yield the machine; kill its programs at the end.

    Args:
        variables: Variables of the shell of `docker compose`.
    """
    etc, secrets = folder / "etc", folder / "secrets"
    secrets.mkdir()
    etc.mkdir()
    ports = {container: str(free_port()) for container in ("8700", "3000", "4000", "6379")}
    _run_of_dockerfile(etc)
    workspace = (etc / "workspace.yaml").read_text()
    (etc / "workspace.yaml").write_text(workspace.replace("code-location", "127.0.0.1").replace("4000", ports["4000"]))
    etc.chmod(0o555)
    values = {"database_url": database_url, "secret_key": Fernet.generate_key().decode()}
    for secret in COMPOSE["x-program"]["secrets"]:
        (secrets / secret["target"]).write_text(values[secret["source"]])
    shell = environment(
        folder / "home",
        DAGSTER_HOME=str(etc),
        SELLER_PLATFORM_SECRETS_DIR=str(secrets),
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        **variables,
    )
    machine = Machine(etc, shell, ports, services)
    try:
        yield machine
    finally:
        for name in list(machine.running):
            machine.kill(name)


def _run_of_dockerfile(etc: Path) -> None:
    """Copy the files that the Dockerfile copies to `/etc/dagster`, and run its command on them."""
    dockerfile = (_DOCKER / "Dockerfile").read_text().replace("\\\n", "")
    copied = re.search(r"^COPY (.*) /etc/dagster/\nRUN (.*)$", dockerfile, flags=re.MULTILINE)
    assert copied is not None
    for path in copied[1].split():
        shutil.copy(TOP / path, etc)
    subprocess.run(["sh", "-ec", copied[2].replace("/etc/dagster", str(etc))], check=True)


def _is_open(port: int) -> bool:
    """Return whether a port of the loopback interface accepts connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
