"""Who may come in: the token, and which names and pages a browser may come from."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from urllib.parse import urlsplit

TOKEN_BYTES = 32


class Guard:
    """Knows the token of one server."""

    def __init__(self, hosts: Iterable[str], *, loopback: bool) -> None:
        """*hosts*: names that the server goes by, beside localhost. *loopback*: it listens there alone, so that no
        other address can be meant."""
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self._hosts = {host.lower().rstrip(".") for host in hosts} | {"localhost"}
        self._loopback = loopback

    def knows(self, offered: str) -> bool:
        """Whether this is the token. Takes as long for a wrong one as for the right one."""
        return hmac.compare_digest(self.token.encode(), offered.encode("utf-8", "surrogateescape"))

    def is_ours(self, host: str | None) -> bool:
        """Whether a Host header names this server. A name that somebody else's DNS points here does not; an address
        can be pointed nowhere."""
        name = _name_of(host)
        if name is None:
            return False
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self._hosts
        return address.is_loopback or not self._loopback

    def same_origin(self, origin: str | None, host: str | None) -> bool:
        """Whether an Origin header is that of a page from here."""
        return host is not None and origin in (f"http://{host}", f"https://{host}")


def _name_of(host: str | None) -> str | None:
    """The name in "name:port"; None where it is none."""
    if not host or any(char in host for char in "@/\\?# \t"):
        return None
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return None
    return name.rstrip(".") if name else None
