"""Who may come in to `gpudeck --web`."""

from __future__ import annotations

import asyncio
import contextlib
import os

import pytest

from tests.inside.tui import Door, Guard, is_tab, marked, screen_command, server, without_tab


@pytest.fixture
def guard() -> Guard:
    return Guard(["127.0.0.1", "box"], loopback=True)


@pytest.mark.parametrize("offered", ["", "x", "é", "\udcff", "A" * 43])
def test_only_the_token_opens(guard: Guard, offered: str):
    assert not guard.knows(offered)
    assert guard.knows(guard.token)


def test_each_server_has_a_token_of_its_own_that_cannot_be_guessed():
    tokens = {Guard([], loopback=True).token for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 43


@pytest.mark.parametrize(
    "host", ["127.0.0.1:80", "localhost:8000", "LOCALHOST", "[::1]:9", "127.0.0.2", "box:1", "box."]
)
def test_names_of_this_box_are_ours(guard: Guard, host: str):
    assert guard.is_ours(host)


@pytest.mark.parametrize(
    "host",
    [
        None, "", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "x@127.0.0.1", "10.0.0.5:80",
        "[", "a b",
    ],
)  # fmt: skip
def test_names_that_somebody_else_points_here_are_not_ours(guard: Guard, host: str | None):
    assert not guard.is_ours(host)


def test_a_server_for_the_network_goes_by_its_addresses_too():
    guard = Guard(["0.0.0.0"], loopback=False)
    assert guard.is_ours("10.0.0.5:80")
    assert not guard.is_ours("evil.example")


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:81", "http://127.0.0.1"])
def test_other_pages_have_another_origin(guard: Guard, origin: str | None):
    assert not guard.same_origin(origin, "127.0.0.1:80")


def test_a_page_from_here_has_our_origin(guard: Guard):
    assert guard.same_origin("http://127.0.0.1:80", "127.0.0.1:80")


def test_an_engine_that_a_tab_starts_gets_the_environment_of_whoever_started_the_server():
    before = {"PATH": "/bin", "TERM": "vt100", "COLUMNS": "7"}
    tab = marked(before, {**before, "TERM": "xterm", "COLUMNS": "90", "TEXTUAL_FPS": "60"})
    assert is_tab(tab)
    assert without_tab(tab) == before


def test_an_environment_without_a_tab_stays_as_it_is():
    assert without_tab(os.environ) is os.environ


@pytest.mark.parametrize(
    ("typed", "rest"),
    [
        (["--web"], ""),
        (["a b.toml", "--web", "--port", "80", "--host=x", "--takeover"], " 'a b.toml'"),
        (["--port=1", "--web", "lr=$(x)"], " 'lr=$(x)'"),
    ],
)
def test_a_tab_runs_the_same_command_line_without_what_is_about_serving(typed: list[str], rest: str):
    assert screen_command(typed).endswith(f" -P -m gpudeck{rest}")


def test_a_connection_that_does_not_show_the_token_is_cut(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "STRANGER_S", 0.01)

    async def idle() -> bytes:
        async with await asyncio.get_running_loop().create_server(Door(asyncio.Protocol), "127.0.0.1", 0) as listening:
            reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
            with contextlib.suppress(ConnectionResetError):
                return await asyncio.wait_for(reader.read(), 10)
            writer.close()
        return b""

    assert asyncio.run(idle()) == b""
