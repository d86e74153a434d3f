"""The URL under which users reach the service; requests for other hosts are refused."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from seller_platform.contract.wire import SERVICE_STATUS
from seller_platform.service.errors import MisdirectedRequestError
from seller_platform.service.http.addresses import is_loopback, url_host
from seller_platform.service.http.responses import BASE_URL


@dataclass(frozen=True)
class Location:
    """Where the service is reached.

    Attributes:
        public_url: The URL in front of every path; None where only this machine reaches the service.
        listened_host: The host that the service listens on. Without a public URL it is served beside the loopback.
    """

    public_url: str | None = None
    listened_host: str = "127.0.0.1"

    @property
    def is_https(self) -> bool:
        """Whether the public URL is one of TLS."""
        return self.public_url is not None and self.public_url.startswith("https:")

    @property
    def undefended(self) -> str | None:
        """A sentence about what the service does not defend where others can reach it; None on the loopback."""
        public_host = urlsplit(self.public_url or "").hostname or "localhost"
        if not self.is_https and not is_loopback(public_host):
            return (
                f"{self.public_url} is not encrypted: passwords and tokens can be read on the way; put a proxy with "
                "TLS in front, and set SELLER_PLATFORM_SERVICE_PUBLIC_URL to its https URL"
            )
        if not is_loopback(self.listened_host):
            return (
                f"{self.listened_host} is not the loopback: without a proxy in front, floods of requests, slow senders "
                "and slow readers are not limited by address; docker/nginx.conf does it"
            )
        return None

    def base_url(self, scheme: str, host: str) -> str | None:
        """Return the base URL of a request; None if it is for another host."""
        try:
            sent = urlsplit(f"{scheme}://{host}")
            name, port = sent.hostname, sent.port
        except ValueError:
            return None
        if name is None or sent.netloc != host or "@" in host:
            return None
        if self.public_url is None:
            known = ("localhost", "127.0.0.1", "[::1]", url_host(self.listened_host).lower())
            return f"{scheme}://{host.lower()}" if url_host(name) in known else None
        public = urlsplit(self.public_url)
        default = {"http": 80, "https": 443}[public.scheme]
        return self.public_url if (name, port or default) == (public.hostname, public.port or default) else None


ON_LOOPBACK = Location()


class CheckHost:
    """ASGI middleware that refuses requests for other hosts (RFC 9110 section 15.5.20).

    Without it, a forged Host header would enter the documentation and the OAuth metadata. The status endpoint answers
    for every host, because health checks call it by the address of a container. The scheme of a request is that of
    the public URL, which decides the flags of cookies.
    """

    def __init__(self, app: ASGIApp, *, location: Location) -> None:
        self._app, self._location = app, location

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        hosts = Headers(scope=scope).getlist("host")
        base_url = self._location.base_url(scope["scheme"], hosts[0]) if len(hosts) == 1 else None
        if base_url is None and scope["path"] != SERVICE_STATUS:
            raise MisdirectedRequestError(", ".join(hosts)[:100], self._location.public_url)
        if base_url is not None:
            # The scope is changed, not copied: the middleware around this one reads the route from it.
            scope[BASE_URL] = base_url
            scope["scheme"] = urlsplit(base_url).scheme
        await self._app(scope, receive, send)
