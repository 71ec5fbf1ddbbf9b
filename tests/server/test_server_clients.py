"""A server and its clients over a real socket: nobody who misbehaves harms the engine or anybody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpudeck.engine.errors import UsageError
from gpudeck.engine.protocol.messages import Counts
from gpudeck.engine.protocol.wire import (
    PORTION,
    REQUEST_LIMIT,
    Cluster,
    DeckHead,
    GpuRow,
    Hello,
    Request,
    TaskRow,
    encode,
)
from tests.inside.server import Listener, Server, connect, listen

DEADLINE_S = 20.0


class Deck:
    """A deck as the server sees it."""

    def __init__(self, total: int = 3) -> None:
        self.states: dict[int, str] = dict.fromkeys(range(total), "queued")
        self.dirty: set[int] = set()
        self.padding = ""
        self.cluster_now: Cluster | None = None

    @property
    def total(self) -> int:
        return len(self.states)

    def rows(self, indexes: list[int]) -> list[TaskRow]:
        return [self._row(index) for index in indexes]

    def _row(self, index: int) -> TaskRow:
        state: Any = self.states[index]
        return TaskRow(index=index, name=f"t-{index}", entry="t-{i}", state=state, reason=self.padding)

    def gpus(self) -> tuple[GpuRow, ...]:
        return (GpuRow(index=0, uuid="GPU-0"),)

    def cluster(self) -> Cluster | None:
        return self.cluster_now

    def head(self, *, anew: bool = False) -> DeckHead:  # noqa: ARG002
        running = sum(state == "running" for state in self.states.values())
        counts = Counts(total=self.total, running=running)
        return DeckHead(deck="d", file="/f", log_dir="/l", run=1, ended=False, counts=counts, slots=1)

    def changed(self) -> set[int]:
        dirty, self.dirty = self.dirty, set()
        return dirty

    def move(self, index: int, state: str) -> None:
        self.states[index] = state
        self.dirty.add(index)


class Wire:
    """A client that speaks the protocol by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def next(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self.reader.readline(), DEADLINE_S)
        assert line, "the connection has ended"
        return json.loads(line)

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """Messages up to and with the first of *kind*."""
        found = [await self.next()]
        while found[-1]["type"] != kind:
            found.append(await self.next())
        return found

    def send(self, line: bytes) -> None:
        self.writer.write(line)

    async def ended(self) -> bytes:
        """What comes until the engine closes the connection."""
        return await asyncio.wait_for(self.reader.read(), DEADLINE_S)


class Rig:
    def __init__(self, folder: Path, deck: Deck) -> None:
        self.deck = deck
        self.asked: list[Request] = []
        self.given_up = asyncio.Event()
        self.left = 0
        self.listener: Listener = listen(str(folder), folder=str(folder / "sockets"))
        hello = Hello(protocol=1, version="0", pid=1, host="h", deck="d", file="/f")
        self.server = Server(deck, self.handle, hello, on_leave=self.leave)

    def leave(self) -> None:
        self.left += 1

    async def handle(self, request: Request) -> Any:
        self.asked.append(request)
        if request.op == "wrong":
            raise UsageError("that is wrong")
        if request.op == "broken":
            raise ZeroDivisionError
        if request.op == "untold":
            return object()
        if request.op == "start":
            self.move(0, "running")
        if request.op == "endless":
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up.set()
        return {"did": request.op}

    async def connect(self) -> Wire:
        reader, writer = await asyncio.open_unix_connection(self.listener.address, limit=1 << 26)
        return Wire(reader, writer)

    async def greeted(self) -> Wire:
        wire = await self.connect()
        assert (await wire.next())["type"] == "hello"
        return wire

    async def watcher(self) -> Wire:
        wire = await self.greeted()
        wire.send(b'{"id": 1, "op": "watch"}\n')
        await wire.until("ready")
        return wire

    def move(self, index: int, state: str) -> None:
        self.deck.move(index, state)
        self.server.pictures.touch()


@asynccontextmanager
async def served(tmp_path: Path, deck: Deck | None = None) -> AsyncGenerator[Rig]:
    rig = Rig(tmp_path, deck or Deck())
    await rig.server.start(rig.listener)
    try:
        yield rig
    finally:
        await rig.server.close("test over")
        rig.listener.close()


async def test_the_engine_greets_first(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.connect()
        hello = await wire.next()
        assert (hello["type"], hello["protocol"], hello["deck"]) == ("hello", 1, "d")


async def test_a_watcher_gets_the_whole_deck_and_then_what_changes(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.greeted()
        wire.send(b'{"id": 1, "op": "watch"}\n')
        messages = await wire.until("ready")
        assert [message["type"] for message in messages] == ["reply", "snapshot", "tasks", "ready"]
        assert [row["name"] for row in messages[2]["rows"]] == ["t-0", "t-1", "t-2"]
        rig.move(1, "running")
        delta = await wire.next()
        assert [(row["name"], row["state"]) for row in delta["rows"]] == [("t-1", "running")]
        assert delta["head"]["counts"]["running"] == 1


async def test_a_watcher_is_told_of_the_cluster_and_again_when_it_is_another(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        rig.deck.cluster_now = Cluster(running=1)
        wire = await rig.greeted()
        wire.send(b'{"id": 1, "op": "watch"}\n')
        messages = await wire.until("ready")
        assert messages[1]["cluster"] == {"running": 1}
        rig.deck.cluster_now = Cluster(running=2)
        rig.server.pictures.touch()
        assert (await wire.next())["cluster"] == {"running": 2}


async def test_a_large_deck_comes_in_portions(tmp_path: Path) -> None:
    async with served(tmp_path, Deck(2 * PORTION + 7)) as rig:
        wire = await rig.greeted()
        wire.send(b'{"id": 1, "op": "watch"}\n')
        portions = [message["rows"] for message in await wire.until("ready") if message["type"] == "tasks"]
        assert [len(rows) for rows in portions] == [PORTION, PORTION, 7]


async def test_what_changes_while_a_picture_is_sent_is_in_it_or_follows_before_ready(tmp_path: Path) -> None:
    async with served(tmp_path, Deck(20 * PORTION)) as rig:
        wire = await rig.greeted()
        wire.send(b'{"id": 1, "op": "watch"}\n')
        await wire.until("tasks")
        rig.move(0, "running")
        messages = await wire.until("ready")
        states = {row["name"]: row["state"] for message in messages for row in message.get("rows", [])}
        assert states["t-0"] == "running"


async def test_the_last_counts_of_a_picture_are_of_the_moment_of_its_rows(tmp_path: Path) -> None:
    async with served(tmp_path, Deck(20 * PORTION)) as rig:
        wire = await rig.greeted()
        wire.send(b'{"id": 1, "op": "watch"}\n')
        await wire.until("tasks")
        rig.move(0, "running")
        heads = [message["head"] for message in await wire.until("ready") if "head" in message]
        assert heads[-1]["counts"]["running"] == 1


async def test_a_client_that_does_not_read_gets_a_new_picture_when_it_does(tmp_path: Path) -> None:
    async with served(tmp_path, Deck(PORTION)) as rig:
        slow, quick = await rig.watcher(), await rig.watcher()
        transport: Any = slow.writer.transport
        transport.pause_reading()
        rig.deck.padding = "x" * 4000
        for turn in range(40):
            for index in range(PORTION):
                rig.deck.move(index, "running" if turn % 2 else "queued")
            rig.server.pictures.touch()
            await quick.next()
        rig.deck.padding = ""
        rig.move(0, "failed")
        transport.resume_reading()
        kinds = [message["type"] for message in await slow.until("snapshot")]
        states = {row["name"]: row["state"] for message in await slow.until("ready") for row in message.get("rows", [])}
        assert kinds.count("delta") < 40
        assert states["t-0"] == "failed"


async def test_nothing_is_taken_from_a_client_that_does_not_read_until_it_does(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        slow, quick = await rig.watcher(), await rig.greeted()
        transport: Any = slow.writer.transport
        transport.pause_reading()
        while not any(client.choked for client in rig.server.pictures._clients):  # no port tells this
            rig.deck.padding += "x" * 4000
            rig.move(0, "running")
            quick.send(b'{"id": 2, "op": "status"}\n')
            await quick.next()
        slow.send(b'{"id": 7, "op": "hold"}\n')
        for _ in range(3):
            quick.send(b'{"id": 3, "op": "status"}\n')
            await quick.next()
        assert "hold" not in [request.op for request in rig.asked]
        transport.resume_reading()
        await slow.until("reply")
        assert rig.asked[-1].op == "hold"


async def test_each_request_gets_its_own_reply(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.greeted()
        wire.send(b'{"id": 7, "op": "hold", "args": {"tasks": ["t-1"]}}\n{"id": 8, "op": "status"}\n')
        replies = {message["id"]: message for message in (await wire.next(), await wire.next())}
        assert replies[7]["result"] == {"did": "hold"}
        assert replies[8]["result"] == {"did": "status"}
        assert rig.asked[0].args == {"tasks": ["t-1"]}


async def test_what_a_request_led_to_is_shown_before_its_answer(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.watcher()
        wire.send(b'{"id": 7, "op": "start"}\n')
        before = (await wire.until("reply"))[:-1]
        states = [row["state"] for message in before for row in message.get("rows", ()) if row["index"] == 0]
        assert states == ["running"]


async def test_a_mistake_of_the_caller_is_an_answer(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.greeted()
        wire.send(b'{"id": 1, "op": "wrong"}\n')
        reply = await wire.next()
        assert (reply["ok"], reply["error"], reply["code"]) == (False, "that is wrong", 2)


async def test_a_bug_in_a_request_ends_neither_engine_nor_connection(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.greeted()
        wire.send(b'{"id": 1, "op": "broken"}\n')
        assert (await wire.next())["code"] == 3
        wire.send(b'{"id": 2, "op": "status"}\n')
        assert (await wire.next())["ok"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff\xfe\n",
        b"GET / HTTP/1.1\r\n",
        b"[]\n",
        b'{"id": "one"}\n',
        b'{"op": 5, "id": 1}\n',
        b"{" * 5000 + b"\n",
        b'{"id": 1, "op": "x", "args": {"a": ' + b"[" * 5000 + b"]" * 5000 + b"}}",
    ],
)
async def test_garbage_ends_that_connection_and_nothing_else(tmp_path: Path, garbage: bytes) -> None:
    async with served(tmp_path) as rig:
        other, bad = await rig.watcher(), await rig.greeted()
        bad.send(garbage + b"\n")
        said = await bad.ended()
        assert b"not a request" in said
        rig.move(0, "running")
        assert (await other.next())["type"] == "delta"


async def test_nothing_is_taken_from_a_client_that_was_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.greeted()
        wire.send(b'garbage\n{"id": 1, "op": "cancel"}\n')
        assert (await wire.ended()).count(b"\n") == 1
        assert rig.asked == []


async def test_a_client_that_was_refused_and_never_reads_keeps_no_engine_alive(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.greeted()
        wire.send(b'{"id": 1, "op": "watch", "args": {"events": true, "rows": false}}\n')
        await wire.until("reply")
        transport: Any = wire.writer.transport
        transport.pause_reading()
        while rig.server.listened:
            rig.server.tell({"event": "note", "text": "x" * 100_000})
            await asyncio.sleep(0)
        assert (rig.server.clients, rig.left) == (0, 1)


async def test_a_reply_that_cannot_be_told_is_an_error_of_that_request_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.greeted()
        wire.send(b'{"id": 1, "op": "untold"}\n')
        assert (await wire.next())["code"] == 3


async def test_what_a_new_watcher_was_shown_is_not_taken_for_what_the_last_one_was_told(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        first = await rig.watcher()
        rig.move(0, "running")
        rig.move(0, "queued")
        assert (await first.next())["head"]["counts"]["running"] == 0
        first.writer.transport.abort()
        async with asyncio.timeout(DEADLINE_S):
            while rig.server.clients:
                await asyncio.sleep(0)
        rig.move(0, "running")
        second = await rig.watcher()
        rig.move(0, "queued")
        assert (await second.next())["head"]["counts"]["running"] == 0


async def test_a_request_without_end_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.greeted()
        wire.send(b"x" * (REQUEST_LIMIT + 2))
        assert b"at most" in await wire.ended()


async def test_one_request_names_as_many_tasks_as_a_deck_may_have(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.greeted()
        names = [f"train-resnet50-lr0.0001-wd0.05-bs256-seed{number}" for number in range(100_000)]
        wire.send(encode(Request(id=7, op="explain", args={"tasks": names})))
        assert (await wire.until("reply"))[-1]["id"] == 7


async def test_a_client_that_vanishes_in_the_middle_of_a_picture_is_forgotten(tmp_path: Path) -> None:
    async with served(tmp_path, Deck(100 * PORTION)) as rig:
        wire = await rig.greeted()
        wire.send(b'{"id": 1, "op": "watch"}\n')
        await wire.until("snapshot")
        wire.writer.transport.abort()
        async with asyncio.timeout(DEADLINE_S):
            while rig.server.clients:
                rig.move(0, "running")
                await asyncio.sleep(0)
        assert rig.left == 1


async def test_half_a_request_is_waited_for(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        half, whole = await rig.greeted(), await rig.greeted()
        half.send(b'{"id": 1, "op"')
        await half.writer.drain()
        whole.send(b'{"id": 1, "op": "status"}\n')
        assert (await whole.next())["ok"]
        half.send(b': "status"}\n')
        assert (await half.next())["ok"]


async def test_events_go_to_those_who_asked_for_them(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire, deaf = await rig.greeted(), await rig.greeted()
        wire.send(b'{"id": 1, "op": "watch", "args": {"events": true, "rows": false}}\n')
        assert (await wire.next())["type"] == "reply"
        rig.server.tell({"event": "note", "text": "hello"})
        assert (await wire.next())["event"] == {"event": "note", "text": "hello"}
        deaf.send(b'{"id": 1, "op": "status"}\n')
        assert (await deaf.next())["type"] == "reply"


async def test_clients_are_told_that_the_engine_ends(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.watcher()
        await rig.server.close("all done", 1)
        bye = (await wire.until("bye"))[-1]
        assert (bye["why"], bye["exit_code"]) == ("all done", 1)
        assert await wire.ended() == b""


@pytest.mark.parametrize("turns", range(6))
async def test_who_comes_as_the_engine_ends_is_let_go_and_not_kept_waiting(tmp_path: Path, turns: int) -> None:
    """However far asyncio has come with the connection that the kernel has made."""
    async with served(tmp_path) as rig:
        with connect(rig.listener.address) as late:
            for _ in range(turns):
                await asyncio.sleep(0)
            await rig.server.close("it ends")
            rig.listener.close()
            late.setblocking(False)
            with contextlib.suppress(ConnectionResetError):
                while await asyncio.wait_for(asyncio.get_running_loop().sock_recv(late, 1 << 16), DEADLINE_S):
                    pass


async def test_a_request_that_is_still_being_answered_is_given_up_when_the_engine_ends(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wire = await rig.greeted()
        wire.send(b'{"id": 7, "op": "endless"}\n{"id": 8, "op": "status"}\n')
        await wire.until("reply")
        await rig.server.close("it ends")
        await asyncio.wait_for(rig.given_up.wait(), DEADLINE_S)


async def test_more_clients_than_anybody_needs_are_turned_away(tmp_path: Path) -> None:
    async with served(tmp_path) as rig:
        wires = [await rig.greeted() for _ in range(64)]
        (refusal,) = (await (await rig.connect()).ended()).splitlines()
        told = json.loads(refusal)
        assert (told["type"], told["ok"], told["code"]) == ("reply", False, 3)
        assert "64 clients attached" in told["error"]
        wires[0].send(b'{"id": 1, "op": "status"}\n')
        assert (await wires[0].next())["ok"]
