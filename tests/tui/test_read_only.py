"""A deck that is only looked at: from its files, or with the engine that runs it; nothing is changed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.live_deck import LiveDeck, live_deck
from tests.fakes.snapshot_deck import ROWS, head
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_rig import NOW_S, snapshot_of, whole
from tests.inside.tui import Choice, Link, TaskTable, client, stat
from tests.tui.read_only_rig import MIXED, finish, kept, looking_at

FAILED, RUNNING, QUEUED = "train-sym-0.5", "train-asym-0.125", "train-both-0.625"
REFUSED = "read-only: nothing is changed from this screen"
ENDLESS = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "long"\ncommand = ["sleep", "1000"]\n'
REPORTING = """
[deck]
gpus = "sim:1"
[[task]]
name = "told"
command = "echo acc=0.5"
metrics.acc = { regex = 'acc=([0-9.]+)' }
"""


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the files have changed."""
    monkeypatch.setattr(client, "LOOK_S", 0.1)


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[LiveDeck]:
    with live_deck(tmp_path, MIXED) as deck:
        yield deck


@pytest.fixture
def finished(deck: LiveDeck) -> LiveDeck:
    finish(deck)
    return deck


async def test_every_page_of_a_finished_deck_is_there_and_nothing_is_written(finished: LiveDeck) -> None:
    before = kept(finished)

    async with looking_at(finished) as rig:
        first = rig.text().splitlines()[0]
        assert "read-only · state of " in first
        assert "run 1 ended" in first
        assert "no engine runs this deck; its last run has ended" in rig.text()
        await rig.until_seen("step 3/3 loss=0.25")
        for key, seen in (("d", "echo step 3/3"), ("e", "KeyError: lr"), ("t", "GPU 1"), ("o", "after-bad")):
            await rig.press(key)
            await rig.until_seen(seen)
            await rig.press("escape")
        await rig.press("l")
        await rig.until_seen("attempt-1.err  empty")
        await rig.press("escape", "G", "k", "r")
        await rig.until_seen(REFUSED)
    assert kept(finished) == before
    assert not finished.holder()


async def test_what_acts_is_refused_by_one_toast_asks_nothing_and_is_not_in_the_footer() -> None:
    link = Link("files", "no engine runs it", read_only=True, as_of=NOW_S - 5400)
    async with snapshot_of(whole(ROWS, head(file_plan="1 added"), EIGHT, link)) as rig:
        footer = rig.text().splitlines()[-1]
        assert "details" in footer
        assert not any(word in footer for word in ("retry", "cancel", "hold", "undo"))
        for name, keys in ((FAILED, "rRaQE"), (RUNNING, "cKHPu"), (QUEUED, "c+")):
            rig.app.screen.query_one(TaskTable).go_to(name)
            for key in keys:
                rig.app.clear_notifications()
                assert await rig.asks(key, key) == [], key
                assert [toast.message for toast in rig.app._notifications] == [REFUSED], key
                assert not any(isinstance(screen, Choice) for screen in rig.app.screen_stack), key


async def test_a_broken_task_file_is_named_and_mended_while_it_is_open(finished: LiveDeck) -> None:
    finished.write(MIXED.replace("needs", "nedes"))

    async with looking_at(finished) as rig:
        await rig.until_seen("tasks.toml:")
        finished.write(MIXED)
        await rig.until_state("after-bad", "blocked")


async def test_a_run_that_begins_while_it_is_looked_at_is_followed_and_shown_when_it_is_over(
    finished: LiveDeck,
) -> None:
    async with looking_at(finished) as rig:
        finished.write(MIXED + ENDLESS.partition("[[task]]")[2].join(("[[task]]", "")))
        finished.start()
        await rig.until_state("long", "running")
        await rig.until_seen("read-only · live")
        await rig.press("G", "c")
        await rig.until_seen(REFUSED)
        await rig.press("d")
        await rig.until_seen("sleep 1000")
        await rig.press("escape")
        with finished.client() as client:
            client.request("stop", tasks=True, now=True)
        await rig.until_seen("read-only · state of ")
        await rig.until_seen("goes on with the run")
        assert rig.row("long").state != "running"


async def test_a_deck_that_a_frozen_engine_holds_is_shown_from_its_files(tmp_path: Path) -> None:
    with live_deck(tmp_path, ENDLESS) as deck:
        engine = deck.start()
        with deck.client() as client:
            deck.until_states(client, long="running")
        deck.until((deck.folder / "logs/long/attempt-1.err").exists, "its logs are there")
        engine.send_signal(signal.SIGSTOP)
        deck.until(lambda: (found := stat(engine.pid)) is not None and found.state == "T", "it has stopped")
        before = kept(deck)
        try:
            async with looking_at(deck) as rig:
                await rig.until_state("long", "starting", "running")
                await rig.until_seen(f"`kill -CONT {engine.pid}` lets it go on")
                await rig.until_seen("read-only · state of ")
            assert kept(deck) == before
        finally:
            engine.send_signal(signal.SIGCONT)


async def test_a_command_that_a_toast_names_can_be_pasted(deck: LiveDeck) -> None:
    async with looking_at(deck) as rig:
        rig.app.tell("`gpudeck stop` ends it")
        await rig.pilot.pause()
        assert f"`gpudeck -f {deck.path} stop` ends it" in {toast.message for toast in rig.app._notifications}


async def test_metrics_of_tasks_that_are_over_are_in_their_rows(tmp_path: Path) -> None:
    with live_deck(tmp_path, REPORTING) as deck:
        finish(deck)

        async with looking_at(deck) as rig:
            await rig.until(lambda: rig.row("told").metrics == {"acc": 0.5}, "its metrics have been read")
