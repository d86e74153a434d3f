"""PostgreSQL that demands TLS: the system's server with a certificate, and TLS in front of the embedded server."""

import os
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from seller_platform.warehouse.postgres.root_user import is_root, server_user
from seller_platform_tests.support.processes import free_port
from seller_platform_tests.support.system_postgres import SYSTEM_SERVERS, system_server
from seller_platform_tests.support.tls_proxy import write_certificate

PASSWORD = "canary of a password"

_SSL_REQUEST = struct.pack("!II", 8, 80_877_103)
_TLS_RECORDS = (20, 21, 22, 23)


@dataclass(frozen=True)
class TlsServer:
    """A server that refuses connections without TLS, and its certificate, which signs itself."""

    port: int
    certificate: Path

    def url(self, database: str, options: str) -> str:
        """Return the URL of a database with parameters of libpq."""
        return f"postgresql://owner:{PASSWORD.replace(' ', '%20')}@localhost:{self.port}/{database}?{options}"


@contextmanager
def tls_server(folder: Path) -> Iterator[TlsServer]:
    """Run the system's newest server; its role `owner` may create databases, and has `PASSWORD`.

    Args:
        folder: A folder that every user can pass through.
    """
    certificate, key, port = write_certificate(folder, days=30), folder / "key.pem", free_port()
    key.touch(0o600)
    key.write_bytes(certificate.read_bytes())
    certificate.chmod(0o644)
    if is_root():
        os.chown(key, server_user().uid, server_user().gid)
    rules = ("hostssl all all 127.0.0.1/32 scram-sha-256", "host all all all reject")
    settings = ("ssl=on", f"ssl_cert_file={certificate}", f"ssl_key_file={key}", "listen_addresses=127.0.0.1")
    with (
        system_server(SYSTEM_SERVERS[-1], folder, *settings, f"port={port}", rules=rules) as sockets,
        psycopg.connect(f"host={sockets} port={port} user=postgres", autocommit=True) as connection,
    ):
        connection.execute(sql.SQL("CREATE ROLE owner LOGIN CREATEDB PASSWORD {}").format(sql.Literal(PASSWORD)))
        connection.execute("CREATE DATABASE shop OWNER owner")
        connection.execute("CREATE DATABASE restored OWNER owner")
        yield TlsServer(port, certificate)


@dataclass
class TlsFront:
    """The port of a proxy that ends TLS as PostgreSQL does, and what its clients have sent before and inside TLS.

    Attributes:
        openings: The first bytes of each connection.
        in_the_clear: The connections that sent anything without TLS but the question for it.
    """

    port: int = 0
    openings: list[bytes] = field(default_factory=list)
    in_the_clear: list[bytes] = field(default_factory=list)


@contextmanager
def tls_front(certificate: Path, postgres_socket: Path) -> Iterator[TlsFront]:
    """Run TLS in front of a server that listens on a socket. A connection without TLS is recorded and closed."""
    context, front = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), TlsFront()
    context.load_cert_chain(certificate)

    def serve(plain: socket.socket) -> None:
        with suppress(OSError), plain:
            opening = plain.recv(8, socket.MSG_WAITALL)
            front.openings.append(opening)
            if opening != _SSL_REQUEST:
                front.in_the_clear.append(opening)
                return
            plain.sendall(b"S")
            if plain.recv(1, socket.MSG_PEEK)[0] not in _TLS_RECORDS:
                front.in_the_clear.append(opening)
                return
            with context.wrap_socket(plain, server_side=True) as client, socket.socket(socket.AF_UNIX) as server:
                server.connect(str(postgres_socket))
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                _pump(client, server)
                back.join()

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        front.port = listener.getsockname()[1]
        threading.Thread(target=accept, daemon=True).start()
        yield front
        listener.shutdown(socket.SHUT_RDWR)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65_536):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
