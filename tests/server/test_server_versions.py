"""Engines and clients of different versions: greeting, status and stop always work, what is unknown is passed over."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from gpudeck.engine.errors import UsageError
from gpudeck.engine.protocol.wire import Delta, Ready
from tests.fakes.live_deck import live_deck
from tests.inside.server import Connection, Gone

FUTURE = {"type": "hello", "protocol": 99, "version": "9.0", "pid": 1, "host": "h", "deck": "d", "file": "/f"}
DECK = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "long"\ncommand = "sleep 60"\n'


class Engine(threading.Thread):
    """An engine of another version: sends its lines, and answers each request with the next of its replies."""

    def __init__(self, *lines: dict[str, Any], replies: tuple[dict[str, Any], ...] = ()) -> None:
        super().__init__(daemon=True)
        self.ours, self._theirs = socket.socketpair()
        self._lines = lines
        self._replies = replies
        self.asked: list[dict[str, Any]] = []

    def run(self) -> None:
        self._send(*self._lines)
        with self._theirs.makefile("rb") as requests:
            for reply, line in zip(self._replies, requests, strict=False):
                self.asked.append(json.loads(line))
                self._send({"type": "reply", "id": self.asked[-1]["id"], **reply})

    def _send(self, *lines: dict[str, Any]) -> None:
        self._theirs.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def test_a_client_stops_an_engine_of_the_future() -> None:
    engine = Engine(
        {**FUTURE, "mood": "sunny"},
        {"type": "weather", "rain": 3},
        replies=({"ok": True, "result": {"head": {}}, "took_ms": 1}, {"ok": True, "result": {}}),
    )
    engine.start()
    with Connection(engine.ours) as client:
        assert client.hello.protocol == 99
        client.request("status")
        client.request("stop", tasks=False)
    assert [request["op"] for request in engine.asked] == ["status", "stop"]


def test_a_client_that_is_not_greeted_keeps_no_socket_open() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(Gone):
        Connection(ours)
    assert ours.fileno() == -1


def test_fields_and_messages_that_a_client_does_not_know_are_passed_over() -> None:
    engine = Engine(
        FUTURE, {"type": "weather"}, {"type": "delta", "rev": 4, "rows": [], "sun": 1}, {"type": "ready", "rev": 4}
    )
    engine.start()
    with Connection(engine.ours) as client:
        kinds = [type(message) for _, message in zip(range(2), client.messages(), strict=False)]
    assert kinds == [Delta, Ready]


def test_an_engine_answers_requests_of_the_future(tmp_path: Path) -> None:
    with live_deck(tmp_path, DECK) as deck:
        engine = deck.start()
        with deck.client() as client:
            assert client.request("status", detail="more")["head"]["deck"] == tmp_path.name
            with pytest.raises(UsageError, match="no request 'dance'"):
                client.request("dance")
            client.request("stop", tasks=True, now=True, gently=False)
        assert engine.wait(30) == 0
