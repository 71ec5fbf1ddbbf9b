"""The task file of a real engine, in this process, when things go wrong on our side."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from gpudeck.engine.core import reload
from gpudeck.engine.core.phases import Running
from gpudeck.engine.errors import EngineEndingError, EngineUnavailableError, UsageError
from gpudeck.engine.protocol.messages import Message, Note, TaskEnded
from tests.fakes.live_deck import live_deck
from tests.inside.live import Engine, RunOptions, live_file, looking, open_deck, watch
from tests.inside.live import apply as module

PATIENCE_S = 30.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of this process looks at its file ten times as often as users need."""
    monkeypatch.setattr(looking, "SETTLE_S", 0.02)
    monkeypatch.setattr(live_file, "LOOK_S", 0.1)
    monkeypatch.setattr(watch, "_GROUP_MS", 20)
    monkeypatch.setattr(watch, "_STEP_MS", 10)


HEAD = '[deck]\ngpus = "none"\ncpu_slots = 2\nreload = "auto"\n'


def task(name: str, command: str) -> str:
    return f"[[task]]\nname = \"{name}\"\ncommand = '''{command}'''\ngpus = 0\n"


WAITS = task("a", "until [ -e go ]; do sleep 0.02; done")


class Rig:
    """An engine whose only task waits until `end`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "tasks.toml"
        self.path.write_text(HEAD + WAITS)
        self.messages: list[Message] = []
        opened = open_deck(str(self.path), RunOptions(), {"PATH": "/usr/bin:/bin"}, as_root=True, takeover=False)
        self.engine = Engine(opened, self.messages.append, cwd=str(folder))
        self.live = self.engine._live
        self.deck = opened.deck

    async def until(self, condition: Callable[[], object]) -> None:
        async def wait() -> None:
            while not condition():
                await asyncio.sleep(0.01)

        await asyncio.wait_for(wait(), PATIENCE_S)

    def noted(self, part: str) -> bool:
        return any(isinstance(message, Note) and part in message.text for message in self.messages)

    def ended(self, name: str) -> bool:
        return any(isinstance(message, TaskEnded) and message.task == name for message in self.messages)

    def end(self) -> None:
        (self.folder / "go").touch()


def with_engine(folder: Path, body: Callable[[Rig], Coroutine[Any, Any, None]]) -> int:
    async def whole() -> int:
        rig = Rig(folder)
        running = asyncio.create_task(rig.engine.run(takes=("failed", "changed"), status_period_s=0.0))
        try:
            await rig.until(lambda: rig.deck.active)
            await body(rig)
        finally:
            rig.end()
        return await asyncio.wait_for(running, PATIENCE_S)

    return asyncio.run(whole())


@pytest.mark.parametrize(("where", "what"), [(module, "make_plan"), (module, "draft"), (reload, "carry_news")])
def test_a_bug_of_ours_in_an_apply_is_told_and_the_deck_goes_on(
    where: Any, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def body(rig: Rig) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("a bug")

        with monkeypatch.context() as patch:
            patch.setattr(where, what, fail)
            rig.path.write_text(HEAD + WAITS + task("b", "true"))
            await rig.until(lambda: rig.noted("could not be taken up"))
        assert list(rig.deck.by_name) == ["a"]
        await rig.live.apply()
        await rig.until(lambda: rig.ended("b"))

    assert with_engine(tmp_path, body) == 0


def test_nothing_is_applied_while_the_journal_cannot_be_written(tmp_path: Path):
    async def body(rig: Rig) -> None:
        rig.deck.unwritable = "no space left"
        rig.path.write_text(HEAD + WAITS + task("b", "true"))
        await rig.until(lambda: rig.noted("the journal cannot be written (no space left): nothing was applied"))
        with pytest.raises(EngineUnavailableError, match="nothing was applied"):
            await rig.live.apply()
        rig.deck.unwritable = ""
        await rig.live.apply()
        await rig.until(lambda: rig.ended("b"))

    assert with_engine(tmp_path, body) == 0


def test_a_task_that_starts_while_an_edit_of_it_is_taken_up_unasked_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    head, b = HEAD.replace("cpu_slots = 2", "cpu_slots = 1"), "until [ -e went ]; do sleep 0.02; done"
    plain = module.draft

    async def body(rig: Rig) -> None:
        rig.path.write_text(head + WAITS + task("b", b))
        await rig.live.apply()

        def slow(*args: Any) -> None:
            plain(*args)
            rig.end()
            started = time.monotonic() + PATIENCE_S
            while not isinstance(rig.deck.by_name["b"].phase, Running) and time.monotonic() < started:
                time.sleep(0.01)

        with monkeypatch.context() as patch:
            patch.setattr(module, "draft", slow)
            rig.path.write_text(head + WAITS + task("b", f"{b}; true") + task("c", "true"))
            await rig.until(lambda: "c" in rig.deck.by_name and rig.live.pending)
            assert rig.live.pending is not None
            assert [change.name for change in rig.live.pending.changed_running] == ["b"]
        (rig.folder / "went").touch()

    with_engine(tmp_path, body)


def test_applies_that_come_at_once_are_done_one_after_the_other(tmp_path: Path):
    async def body(rig: Rig) -> None:
        rig.path.write_text(HEAD + WAITS + task("b", "true"))
        first, second = await asyncio.gather(rig.live.apply(), rig.live.apply())
        assert first.plan.added == ("b",)
        assert not second.plan
        await rig.until(lambda: rig.ended("b"))

    assert with_engine(tmp_path, body) == 0


def test_what_comes_too_late_for_an_engine_is_to_be_asked_again(tmp_path: Path):
    async def whole() -> None:
        rig = Rig(tmp_path)
        rig.end()
        await asyncio.wait_for(rig.engine.run(takes=("failed", "changed"), status_period_s=0.0), PATIENCE_S)
        with pytest.raises(EngineEndingError, match="nothing was applied, ask again"):
            await rig.live._applier.written()

    asyncio.run(whole())


def test_an_engine_that_is_about_to_end_applies_nothing(tmp_path: Path):
    async def body(rig: Rig) -> None:
        rig.deck.stopping = True
        with pytest.raises(UsageError, match="about to end"):
            await rig.live.apply()
        rig.deck.stopping = False

    assert with_engine(tmp_path, body) == 0


def test_attempts_go_over_unharmed_through_many_applies(tmp_path: Path):
    async def body(rig: Rig) -> None:
        attempt = rig.deck.by_name["a"].attempt()
        for count in range(1, 8):
            added = "".join(task(f"b{number}", "true") for number in range(count))
            rig.path.write_text(HEAD.replace("auto", "ask") + added + WAITS)
            await rig.live.apply()
            assert rig.deck.by_name["a"].attempt() is attempt
        await rig.until(lambda: rig.ended("b6"))

    assert with_engine(tmp_path, body) == 0


def test_a_file_that_is_still_being_written_is_left_alone(tmp_path: Path) -> None:
    async def body(rig: Rig) -> None:
        now = asyncio.get_running_loop().time
        over_at, state = now() + 0.5, 0
        while now() < over_at:
            state += 1
            rig.path.write_text(HEAD + WAITS + task("b", f"echo half {state} >>ran"))
            await asyncio.sleep(0)  # the engine's turn: whenever it looks again, the file is another
        rig.path.write_text(HEAD + WAITS + task("b", "echo whole >>ran"))
        await rig.until(lambda: rig.ended("b"))
        assert (rig.folder / "ran").read_text() == "whole\n"

    assert with_engine(tmp_path, body) == 0


def test_the_plan_of_an_edit_follows_its_tasks_while_it_waits(tmp_path: Path):
    other = '[[task]]\nname = "long"\ncommand = ["sleep", "1000"]\ngpus = 0\n'
    with live_deck(tmp_path, HEAD.replace("auto", "ask") + WAITS + other) as deck:
        deck.start()
        with deck.client() as client:
            deck.until_states(client, a="running", long="running")

            def told(text: str) -> None:
                deck.until(lambda: client.request("status")["head"].get("file_plan") == text, text)

            deck.write(deck.text("tasks.toml").replace("0.02", "0.03"))
            told("1 changed, running")
            (tmp_path / "go").touch()
            told("1 changed, ended")
