"""A port of the loopback interface in front of the embedded server, which admits one user with a password.

The server itself asks the kernel who connects to its socket, and lets the user of this process connect as any role.
Therefore only connections of that one user are passed on, and PostgreSQL checks their password.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from seller_platform.errors import CannotListenError
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.programs import CLIENT_USER

HOST = "127.0.0.1"

_ENCRYPTION_REQUESTS = (80_877_103, 80_877_104)
_CANCEL_REQUEST = 80_877_102
_PROTOCOL = 3
_LONGEST_START = 10_000
_START_SECONDS = 60.0
_REFUSED = "28000"


@contextmanager
def loopback_port(server: EmbeddedServer, port: int) -> Iterator[int]:
    """Pass on the connections of `CLIENT_USER` to a server while the block runs, and yield the port.

    Args:
        port: 0 takes a free one.

    Raises:
        CannotListenError: The port is taken.
    """
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        raise CannotListenError(HOST, port, error.strerror or str(error), option="--port") from error
    with listener:
        target = str(server.socket_file)
        threading.Thread(target=_accept, args=(listener, target), daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, target: str) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, target), daemon=True).start()


def _serve(client: socket.socket, target: str) -> None:
    with suppress(OSError, ValueError, struct.error), client, socket.socket(socket.AF_UNIX) as server:
        client.settimeout(_START_SECONDS)
        start = _start_message(client)
        if start is None:
            return
        client.settimeout(None)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.connect(target)
        server.sendall(start)
        back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
        back.start()
        _pass_on(client, server)
        back.join()


def _start_message(client: socket.socket) -> bytes | None:
    """Return the first message for the server; None if the client was refused.

    The message is written anew, so that PostgreSQL reads the very user that was checked.
    """
    while True:
        message = _read_message(client)
        (kind,) = struct.unpack_from("!I", message)
        if kind not in _ENCRYPTION_REQUESTS:
            break
        client.sendall(b"N")
    if kind == _CANCEL_REQUEST:
        return _with_length(message)
    if kind >> 16 != _PROTOCOL:
        return None
    words = message[4:].split(b"\0")[:-2]
    parameters = dict(zip(words[::2], words[1::2], strict=True))
    if parameters.get(b"user") != CLIENT_USER.encode():
        problem = f"this port admits the user {CLIENT_USER} only".encode()
        fields = {b"S": b"FATAL", b"V": b"FATAL", b"C": _REFUSED.encode(), b"M": problem}
        client.sendall(b"E" + _with_length(b"".join(name + text + b"\0" for name, text in fields.items()) + b"\0"))
        return None
    listed = b"".join(name + b"\0" + value + b"\0" for name, value in parameters.items())
    return _with_length(message[:4] + listed + b"\0")


def _read_message(client: socket.socket) -> bytes:
    (length,) = struct.unpack("!I", _read(client, 4))
    if not 8 <= length <= _LONGEST_START:
        raise ValueError("no first message of PostgreSQL's protocol")
    return _read(client, length - 4)


def _read(client: socket.socket, length: int) -> bytes:
    read = b""
    while len(read) < length:
        part = client.recv(length - len(read))
        if not part:
            raise ValueError("the client left")
        read += part
    return read


def _with_length(content: bytes) -> bytes:
    return struct.pack("!I", len(content) + 4) + content


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65_536):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
