"""Which ports to listen on, and whether somebody does."""

from __future__ import annotations

import errno
import random
import socket

from .cache import Unavailable

# Below the range of client ports (from 32768 on Linux): a driver that reconnects while its server is down could
# otherwise be given the server's own port, and the restart would fail.
PORTS = range(10_000, 30_000)


def accepts(address: str, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True


def free_port(*addresses: str) -> int:
    """A port that is free on all of the addresses. Raises `Unavailable` for one that is not this machine's."""
    while True:
        port = random.choice(PORTS)
        if all(_is_free(address, port) for address in addresses):
            return port


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise Unavailable(
                    f"{address} is no address of this machine (macOS: ifconfig lo0 alias {address})"
                ) from error
            return False
        return True
