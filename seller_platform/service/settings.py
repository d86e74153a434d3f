"""The settings of the service."""

from collections.abc import Sequence
from ipaddress import ip_network
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from seller_platform.settings import Settings, listed


def origin_of(url: str) -> str:
    """Return a URL of a host and perhaps a port, in lower case, without a slash at its end and without a default port.

    Raises:
        ValueError: It is another URL, or none.
    """
    try:
        parts = urlsplit(url.lower())
        origin = f"{parts.scheme}://{parts.netloc}"
        is_origin = parts.scheme in ("http", "https") and url.lower() in (origin, f"{origin}/")
        if not is_origin or not parts.hostname or "@" in origin or (parts.port is None and origin.endswith(":")):
            raise ValueError(url)
    except ValueError:
        raise ValueError("must be an http or https URL without path, such as https://api.example.com") from None
    default_port = {"http": ":80", "https": ":443"}[parts.scheme]
    return origin.removesuffix(default_port)  # browsers leave it out, and origins are compared as texts


def networks(proxies: str) -> str:
    """Return addresses and networks, with commas between them, as they are.

    Raises:
        ValueError: One is neither.
    """
    try:
        for proxy in listed(proxies):
            ip_network(proxy)
    except ValueError:
        raise ValueError("must be IP addresses or networks, such as 10.0.0.5,172.16.0.0/12") from None
    return proxies


class ServiceSettings(Settings):
    """What the service's operator may set."""

    elsewhere: ClassVar[Sequence[str]] = ("service_database_url", "service_public_url")

    service_database_url: SecretStr | None = Field(
        None, description="the database that `service` serves; by default the sandbox"
    )
    service_public_url: Annotated[str, AfterValidator(origin_of)] | None = Field(
        None,
        description="the URL under which users reach the service; without it, only this machine's loopback and "
        "`--host` are served",
    )
    service_trusted_proxies: Annotated[str, AfterValidator(networks)] = Field(
        "",
        description="addresses and networks of the proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are "
        "trusted, such as `127.0.0.1`; by default none",
    )
    service_private_client_hosts: str = Field(
        "",
        description="hosts whose client ID metadata documents the service reads although their addresses are not "
        "public, with commas between them; by default none",
    )
    service_connections: int = Field(
        2_000,
        description="the most connections of one process of the service; beyond it, requests get 503",
        ge=1,
        le=100_000,
    )
    service_requests_per_token: int | None = Field(
        None,
        description="requests a minute with one token, `0` for any number; by default 1,200, none on a loopback "
        "host without a public URL",
        ge=0,
    )
    service_requests_per_user: int | None = Field(
        None,
        description="requests a minute of one user, `0` for any number; by default 2,400, none on a loopback "
        "host without a public URL",
        ge=0,
    )
    service_lists_at_once: int | None = Field(
        None,
        description="requests of lists, costs, new reports and statistics at once, of one user three quarters at most; "
        "by default processors, at least 2",
        ge=2,
        le=100,
    )
    service_open_reports: int = Field(
        20, description="how many reports of one user may wait or be written", ge=1, le=1_000
    )
    service_report_bytes: int = Field(
        1 << 30,
        description="how many bytes the stored reports of one user may take, with 4 KiB for each report",
        ge=1 << 20,
    )
    service_report_days: int = Field(
        7, description="for how many days after its request a report is kept", ge=1, le=365
    )
    service_cost_periods_per_product: int = Field(
        10_000, description="how many cost periods may be stored of one product of an account", ge=1
    )
    service_cost_periods_per_account: int = Field(
        200_000, description="how many cost periods may be stored of all products of an account", ge=1
    )
    service_contact: str = Field(
        "the operator of this service",
        description="whom users ask who forgot their password: an e-mail address or a text",
        min_length=1,
    )
    service_session_hours: float = Field(12, description="how long after its login a session ends", gt=0, le=720)
    service_session_idle_minutes: float = Field(
        120, description="how long a session may be unused before it ends", ge=1, le=43_200
    )
    service_grant_days: int = Field(
        365,
        description="how many days after the approval of an application its access to the service ends",
        ge=1,
        le=3650,
    )
