"""A coding agent at a deck: the tools of `gpudeck mcp`, asked by the client of the protocol's own SDK."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters

from tests.e2e.decks import Deck, until
from tests.e2e.test_api import MAKES_WAY

FILE = """
[deck]
gpus = "none"
cpu_slots = 2

[[task]]
name = "t-s{seed}"
gpus = 0
command = "echo ::gpudeck acc=0.{seed}; test {seed} != 3"
matrix.seed = [1, 2, 3]
"""


@asynccontextmanager
async def agent(deck: Deck) -> AsyncIterator[Any]:
    """Asks a tool: its name and arguments."""
    server = StdioServerParameters(
        command=sys.executable, args=["-P", "-m", "gpudeck", "mcp"], env=dict(deck.env), cwd=str(deck.folder)
    )
    async with Client(server) as client:

        async def ask(tool: str, **arguments: Any) -> str:
            answer = await client.call_tool(tool, arguments)
            return "\n".join(part.text for part in answer.content)

        ask.client = client  # type: ignore[attr-defined]
        yield ask


async def test_an_agent_submits_waits_triages_and_compares(deck: Deck) -> None:
    deck.write(FILE)
    async with agent(deck) as ask:
        shown = await ask("submit", command="echo ::gpudeck acc=0.9", name="mine", gpus=0)
        assert 'name = "mine"' in shown
        assert "nothing was added" in shown
        assert 'name = "mine"' not in (deck.folder / "tasks.toml").read_text()
        assert (await ask("submit", command="echo ::gpudeck acc=0.9", name="mine", gpus=0, dry_run=False)).startswith(
            "mine"
        )
        told = ""
        while "nothing more runs" not in told:
            told = await ask("wait", seconds=60)
        assert "succeeded, 1 failed (t-s3)" in told
        state = await ask("state")
        assert "t-s3" in state
        assert len(state.splitlines()) <= 40
        triage = await ask("triage", task="t-s3")
        assert "exit 1" in triage
        assert "which succeeded: seed=3" in triage
        assert "acc=0.3" in triage
        assert "acc=0.1" in await ask("logs", task="t-s1")
        assert "0.9" in await ask("metrics", select="mine")
        assert "not told: one value is too few" in await ask("compare", first="t-s1", second="t-s2")
        assert "t-s3" in await ask("retry", select="t-s3")


async def test_what_an_agent_added_and_cancelled_says_so(deck: Deck) -> None:
    deck.write(FILE)
    async with agent(deck) as ask:
        await ask("submit", command="sleep 600", name="mine", gpus=0, dry_run=False)
        while "running" not in await ask("tasks", select="tag:agent"):
            await ask("wait", select="mine", seconds=5)
        await ask("cancel", select="mine")
        while "cancelled by agent" not in (told := await ask("tasks", select="mine")):
            assert "running" in told or "stopping" in told
    assert [line.split()[0] for line in deck.command("ls", "tag:agent").out.splitlines()[1:]] == ["mine"]


async def test_an_agents_tasks_are_compared_by_what_they_are_tried_with(deck: Deck) -> None:
    deck.write('[deck]\ngpus = "none"\n')
    async with agent(deck) as ask:
        for lr in (1, 2):
            for seed in (1, 2):
                command = "echo ::gpudeck acc=0.{lr}{seed}"
                params = {"lr": str(lr), "seed": str(seed)}
                await ask("submit", command=command, gpus=0, params=params, dry_run=False)
        while "nothing more runs" not in await ask("wait", seconds=60):
            pass
        assert "lr=2 is higher" in await ask("compare", first="lr=1", second="lr=2", over="seed", metric="acc")


async def test_an_agent_may_have_the_place_of_a_task_that_goes_on_afterwards(deck: Deck) -> None:
    deck.write(MAKES_WAY)
    deck.gate()
    assert deck.command("start").code == 0
    until(lambda: deck.lines("order") == ["begun"])
    async with agent(deck) as ask:
        told = await ask("submit", command="echo now >>order", name="mine", now=True, dry_run=False)
        assert "train makes way for mine" in told
        while "nothing more runs" not in await ask("wait", seconds=60):
            pass
    assert deck.lines("order") == ["begun", "now", "resumed"]


async def test_what_is_wrong_is_told_and_the_server_stays(deck: Deck) -> None:
    deck.write(FILE)
    async with agent(deck) as ask:
        for tool, arguments, why in (
            ("cancel", {"select": "nope"}, "nope: no task of this deck matches"),
            ("retry", {"select": " "}, "'*' means all"),
            ("triage", {"task": "t-*"}, "several tasks"),
            ("wait", {"select": "nope", "seconds": 1}, "nope: no task of this deck matches"),
            ("wait", {"timeout": 1}, "wait has no argument timeout: it takes select, seconds"),
            ("state", {"all": True}, "state has no argument all: it takes none"),
        ):
            answer = await ask.client.call_tool(tool, arguments)
            assert (answer.is_error, why in answer.content[0].text) == (True, True), answer
        assert not (await ask.client.call_tool("tasks", {})).is_error
        assert "no engine runs this deck" in await ask("wait", seconds=1)
        assert "t-s1" in await ask("tasks")


async def test_a_retry_with_an_argument_that_it_does_not_have_runs_nothing(deck: Deck) -> None:
    deck.write(FILE)
    deck.run()
    async with agent(deck) as ask:
        answer = await ask.client.call_tool("retry", {"select": "t-s3", "set": {"seed": "1"}})
        assert answer.content[0].text == "retry has no argument set: it takes select, values"
        assert "attempt 2" not in deck.command("show", "t-s3").out


async def test_there_are_at_most_ten_tools_and_each_says_what_it_does(deck: Deck) -> None:
    deck.write(FILE)
    async with agent(deck) as ask:
        tools = (await ask.client.list_tools()).tools
        assert len(tools) <= 10
        assert all(tool.description for tool in tools)
        assert "never start a training yourself" in ask.client.instructions


async def test_without_a_task_file_the_queue_is_meant_also_where_it_is_empty(deck: Deck) -> None:
    deck.env["XDG_STATE_HOME"] = str(deck.folder / "state")
    async with agent(deck) as ask:
        assert 'name = "one"' in await ask("submit", command="exit 3", name="one", gpus=0)
        assert (await ask("submit", command="exit 3", name="one", gpus=0, dry_run=False)).startswith("one")
        while "nothing more runs" not in (told := await ask("wait", seconds=60)):
            pass
        assert told == "nothing more runs: 1 failed (one)"
        assert "'*' means all" in await ask("cancel", select=" ")
    deck.command("stop", "--queue")


def test_a_task_file_that_is_not_there_is_refused(deck: Deck) -> None:
    ended = deck.command("mcp", "nope.toml")
    assert ended.code == 2
    assert "nope.toml" in ended.err


def test_without_the_extra_it_says_what_to_install(deck: Deck) -> None:
    deck.write(FILE)
    hidden = (
        "import sys, importlib.util as u; find = u.find_spec; u.find_spec = lambda name, *more: None if name == 'mcp'"
    )
    code = f"{hidden} else find(name, *more); from gpudeck.cli.main import main; sys.exit(main(['mcp']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=deck.folder, env=deck.env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'gpudeck[mcp]'" in done.stderr
