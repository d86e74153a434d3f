"""A proxy on the loopback that ends TLS and passes on the bytes, and a certificate for it."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def write_certificate(folder: Path, *, days: int, host: str = "localhost") -> Path:
    """Write a key and a certificate for a host, which signs itself, and return the file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string(f"CN={host}")
    addresses = [x509.IPAddress(ip_address("127.0.0.1"))] if host == "localhost" else []
    hosts = x509.SubjectAlternativeName([x509.DNSName(host), *addresses])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=3_650))  # a process may have an earlier clock
        .not_valid_after(now + timedelta(days=days, hours=1))
        .add_extension(hosts, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "certificate.pem"
    file.write_bytes(private + certificate.public_bytes(pem))
    return file


@contextmanager
def tls_proxy(certificate: Path) -> Iterator[tuple[int, list[int]]]:
    """Run a proxy, and yield its port and a list that takes the port to pass on to."""
    context, targets = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), list[int]()
    context.load_cert_chain(certificate)

    def serve(plain: socket.socket) -> None:
        with (
            context.wrap_socket(plain, server_side=True) as client,
            socket.create_connection(("127.0.0.1", targets[0])) as service,
        ):
            back = threading.Thread(target=_pump, args=(service, client), daemon=True)
            back.start()
            _pump(client, service)
            back.join()

    with listening(serve) as port:
        yield port, targets


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve each connection in a thread of its own until the block ends, and yield the port."""

    def serve_one(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            serve(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve_one, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until the source ends, then end the target."""
    with suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
