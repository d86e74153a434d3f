"""Tests that `service doctor` passes a service behind TLS, and names the step for each thing that is missing."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from seller_platform.cli.service.command import service as commands
from seller_platform.service.http.connections import ConnectionLimits
from seller_platform.service.http.public_url import ON_LOOPBACK, Location
from seller_platform_tests.support.command_line import invoke
from seller_platform_tests.support.served import running_app
from seller_platform_tests.support.tls_proxy import tls_proxy, write_certificate

ELSEWHERE = ConnectionLimits(trusted_proxies=("192.0.2.1",))


@contextmanager
def _behind_tls(
    database_url: str, folder: Path, *, knows_its_url: bool, limits: ConnectionLimits, days: int = 90
) -> Iterator[str]:
    with tls_proxy(write_certificate(folder, days=days)) as (port, targets):
        url = f"https://localhost:{port}"
        location = Location(url) if knows_its_url else ON_LOOPBACK
        with running_app(database_url, location=location, connection_limits=limits) as base_url:
            targets.append(int(base_url.rpartition(":")[2]))
            yield url


def _findings(url: str) -> tuple[int, dict[str, tuple[str, str, str]]]:
    """Return the exit code and, by subject, the verdict, the message and the step of the last finding."""
    result = invoke(commands, ["doctor", "--url", url, "--json"])
    document: dict[str, Any] = json.loads(result.stdout)
    found = {each["subject"]: (each["level"], each["message"], each["next_step"]) for each in document["findings"]}
    return result.exit_code, found


def test_a_service_that_knows_its_url_behind_tls_passes(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _behind_tls(database_url, tmp_path, knows_its_url=True, limits=ELSEWHERE, days=3) as url:
        untrusted, refused = _findings(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        code, found = _findings(url)

    assert untrusted == 5
    assert "certificate of localhost is not valid" in refused["TLS"][1]
    assert code == 0, found
    assert {subject for subject, (verdict, _, _) in found.items() if verdict != "ok"} == {"TLS"}
    assert found["TLS"][0] == "warn"
    assert {"service", "issuer", "cookie", "headers", "HSTS", "limits", "foreign host", "trusted proxy"} <= set(found)
    assert "431" in found["limits"][1]
    assert "421" in found["foreign host"][1]


def test_a_service_that_does_not_know_its_url_gets_a_step_for_each_problem(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    believing = ConnectionLimits(head_bytes=1 << 20)
    with _behind_tls(database_url, tmp_path, knows_its_url=False, limits=believing) as url:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        code, found = _findings(url)

    assert code == 5
    missing = {subject: step for subject, (verdict, _, step) in found.items() if verdict == "fail"}
    assert set(missing) == {"issuer", "cookie", "HSTS", "limits"}
    assert all("SELLER_PLATFORM_SERVICE_PUBLIC_URL" in missing[subject] for subject in ("issuer", "cookie", "HSTS"))
    assert "32 KiB" in missing["limits"]


def test_plain_loopback_is_warned_about_and_no_answer_fails(database_url: str) -> None:
    with running_app(database_url) as url:
        code, found = _findings(url)
    away, nothing = _findings("http://127.0.0.1:1")

    assert (code, found["trusted proxy"][0], found["plain HTTP"][0]) == (0, "ok", "warn")
    assert not [subject for subject, (verdict, _, _) in found.items() if verdict == "fail"]
    assert (away, list(nothing)) == (5, ["service"])


def test_an_address_with_a_path_is_no_public_url() -> None:
    result = invoke(commands, ["doctor", "--url", "https://api.example/v1"])

    assert result.exit_code == 2
    assert "without path" in result.output
