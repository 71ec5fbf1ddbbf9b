"""Where a page can be looked at: a port of this box, and how it is reached from another one."""

from __future__ import annotations

import getpass
import ipaddress
import socket
import sys

from .errors import EngineUnavailableError, UsageError

LOOPBACK = "127.0.0.1"


def listen(host: str, port: int) -> tuple[socket.socket, bool]:
    """A socket that listens, and whether it does so for this box alone; port 0: any. Raises UsageError,
    EngineUnavailableError."""
    if not 0 <= port <= 65535:
        raise UsageError(f"--port must be 0 to 65535, got {port}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise UsageError(f"--host {host}: {error}") from None
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(64)
    except OSError as error:
        sock.close()
        raise EngineUnavailableError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return sock, ipaddress.ip_address(str(address[0])).is_loopback


def tell(sock: socket.socket, host: str, key: str, *, loopback: bool) -> None:
    """Print the address, with the *key* to the page."""
    port = sock.getsockname()[1]
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{port}/{key}", flush=True)
    if loopback:
        there = f"{_login()}{socket.gethostname()}"
        print(f"from another box: ssh -L {port}:{shown}:{port} {there}, then open the same address", file=sys.stderr)
    else:
        print("this is not encrypted: on a network that others share, leave --host out and use ssh -L", file=sys.stderr)
    print("Ctrl-C ends the page, and stops nothing else", file=sys.stderr, flush=True)


def _login() -> str:
    """ "ada@"; empty for a user without a name, as in many a container."""
    try:
        return f"{getpass.getuser()}@"
    except (KeyError, OSError):
        return ""
