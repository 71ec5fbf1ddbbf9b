"""Sends one message to URLs through apprise: processes of their own, for a service may hang and a library may crash.

Reads an order as JSON from stdin, prints for each URL, in their order, what went wrong ("" for nothing) as a JSON list.
The engine runs this text as it was when the engine started (`python -c`): it imports nothing of gpudeck.
"""

from __future__ import annotations

import json
import logging
import os
import re
import select
import signal
import sys
import time
from typing import Any

_MISSING = "apprise is not installed: pip install apprise"
_MAX_CHARS = 200


class _Kept(logging.Handler):
    """The last thing that apprise complained of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.said = record.getMessage()


def _without_secrets(text: str, url: str) -> str:
    """One line of *text* in which no part of *url* stands, but for its scheme."""
    text = " ".join(re.sub(r"[a-z][a-z0-9+]*://\S+", "***", text, flags=re.IGNORECASE).split())
    rest = url.partition("://")[2]
    for part in sorted(
        {rest, *re.split(r"[/:@?&=#]+", rest), *re.split(r"[^A-Za-z0-9]+", rest)}, key=len, reverse=True
    ):
        if len(part) > 2:
            text = text.replace(part, "***")
    return text[:_MAX_CHARS]


def _send(apprise: Any, url: str, order: dict[str, Any]) -> str:
    """In a process that sends to nobody else: what is complained of is about this URL."""
    kept = _Kept()
    logger = logging.getLogger("apprise")
    logger.handlers, logger.propagate = [kept], False
    try:
        target = apprise.Apprise()
        if not target.add(url):
            return "apprise does not know this kind of URL, or the URL lacks something"
        title, body, level = order["title"], order["body"], order["level"]
        if target.notify(title=title, body=body, notify_type=level, body_format="text"):
            return ""
    except Exception as error:  # Services are plug-ins of others: whatever one raises is the answer for its URL.
        return f"{type(error).__name__}: {_without_secrets(str(error), url)}"
    return _without_secrets(kept.said, url) or "it was not taken"


def _begin(apprise: Any, url: str, order: dict[str, Any]) -> tuple[int, int]:
    """A process for one URL: its pid, and where its answer comes."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            os.write(writer, _send(apprise, url, order).encode())
        finally:
            os._exit(0)
    os.close(writer)
    return pid, reader


def _end(pid: int, reader: int, deadline: float, timeout_s: float) -> str:
    left_s = max(0.0, deadline - time.monotonic())
    ready = select.select([reader], [], [], left_s)[0]
    answer = os.read(reader, 65536).decode() if ready else f"no answer within {timeout_s:g} s"
    os.kill(pid, signal.SIGKILL)
    return answer


def main() -> None:
    """Whatever becomes of the engine, this ends."""
    order: dict[str, Any] = json.load(sys.stdin)
    urls: list[str] = order["urls"]
    timeout_s: float = order["timeout_s"]
    deadline = time.monotonic() + timeout_s
    signal.setitimer(signal.ITIMER_REAL, timeout_s + 2)
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing that a plugin prints is taken for an answer
    try:
        import apprise
    except ImportError:
        found = [_MISSING] * len(urls)
    else:
        begun = [_begin(apprise, url, order) for url in urls]
        found = [_end(*one, deadline, timeout_s) for one in begun]
    os.write(out, json.dumps(found).encode())


if __name__ == "__main__":
    main()
