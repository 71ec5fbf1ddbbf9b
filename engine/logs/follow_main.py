"""The helper process that reads logs: a hanging file system or pattern holds it up, not the engine.

`python -P -m gpudeck.engine.logs.follow_main FD STORE`: requests come on standard input, answers go to standard output,
a JSON object a line each; FD is shared memory that tells what is being done. The protocol is the engine's and of its
version; `engine/attempts/following.py` is the other end.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import re
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ..atomic import write_atomic
from .follow import Follower

PROTOCOL = 1
STORE_PERIOD_S = 5.0
GUARD = struct.Struct("=II")
"""The attempt and what is being done for it, in the shared memory."""
_PR_SET_PDEATHSIG = 1


class Store:
    """The metrics of attempts that run, in a file: whoever takes the attempts over goes on from there."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._written_s = time.monotonic()
        self._kept: dict[str, Any] = {}
        try:
            with open(path, "rb") as file:
                self._kept = dict(json.loads(file.read()))
        except (OSError, ValueError, TypeError):
            pass
        self.of = dict(self._kept).get
        """By token: what was known of its metrics when this process began; None: nothing."""

    def keep(self, followers: Iterable[Follower]) -> None:
        """Write what is known now, once in a while and if it is news."""
        now = time.monotonic()
        if now - self._written_s < STORE_PERIOD_S:
            return
        self._written_s = now
        known = {follower.token: found for follower in followers if (found := follower.known)}
        if known == self._kept:
            return
        self._kept = known
        with contextlib.suppress(OSError):  # a full disk: the next engine knows less
            write_atomic(self._path, json.dumps(known).encode(), durable=False, draft=f"{self._path}~")


class Helper:
    """Answers requests."""

    def __init__(self, at: Callable[[int, int], None], store: Store) -> None:
        """*at*: see `Follower`."""
        self._at = at
        self._store = store
        self._followers: dict[int, Follower] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a request; None: it wants none."""
        match request["do"]:
            case "follow":
                self._follow(request)
                return None
            case "drop":
                self._let_go(request["id"])
                return None
            case "judge":
                return {"judge": request["id"], **self._to_the_end(request["id"])}
            case "final":
                answer = {"final": request["id"], **self._to_the_end(request["id"])}
                self._let_go(request["id"])
                return answer
            case "look":
                return self._look()
            case _:
                return None

    def _let_go(self, attempt: int) -> None:
        if (follower := self._followers.pop(attempt, None)) is not None:
            follower.keep(at_once=True)

    def _follow(self, request: dict[str, Any]) -> None:
        self._let_go(request["id"])
        request["known"] = request["known"] or self._store.of(request["token"]) or {}
        try:
            follower = Follower(request, self._at)
        except re.error:  # another Python than the one that checked the file
            follower = Follower({**request, "progress": "", "metrics": [], "pattern": ""}, self._at)
        self._followers[follower.id] = follower

    def _look(self) -> dict[str, Any]:
        seen: dict[int, dict[str, Any]] = {}
        for follower in self._followers.values():
            changes = follower.look()
            follower.keep(at_once=False)
            if changes:
                seen[follower.id] = changes
        self._store.keep(self._followers.values())
        return {"seen": seen, **self._news(*self._followers.values())}

    def _to_the_end(self, attempt: int) -> dict[str, Any]:
        """Everything that it has written, to the last byte."""
        follower = self._followers.get(attempt)
        if follower is None:
            return {}
        return {"seen": {attempt: follower.look(final=True)}, **self._news(follower)}

    def _news(self, *followers: Follower) -> dict[str, Any]:
        hits: list[tuple[int, str]] = []
        hung: list[tuple[int, int]] = []
        points: list[tuple[int, str, float, float | None]] = []
        for follower in followers:
            hits += [(follower.id, line) for line in follower.hits]
            hung += [(follower.id, what) for what in follower.hung]
            points += [(follower.id, *point) for point in follower.points]
            follower.hits.clear()
            follower.points.clear()
            follower.hung.clear()
        return {name: items for name, items in (("hits", hits), ("hung", hung), ("points", points)) if items}


def main() -> None:
    """Serve until the engine closes standard input or dies."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # the engine's group gets them from the terminal; it decides
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    shared = mmap.mmap(int(sys.argv[1]), GUARD.size)
    helper = Helper(partial(GUARD.pack_into, shared, 0), Store(sys.argv[2]))
    _say({"hello": PROTOCOL})
    for line in sys.stdin.buffer:
        answer = helper.answer(json.loads(line))
        if answer is not None:
            _say(answer)


def _say(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
