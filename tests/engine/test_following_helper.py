"""The helper process that follows logs: it dies, hangs, is not needed or cannot be had."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudeck.engine.core.spec import Metric, Watch
from gpudeck.engine.logs import helper
from gpudeck.engine.logs.follow import FILES, WATCH
from tests.fakes.following_rig import Rig, rigged, task
from tests.fakes.local_rig import lives


@rigged(task("a"))
async def test_a_helper_that_dies_is_replaced(rig: Rig) -> None:
    token = rig.run("a")
    await rig.until(lambda: rig.helper)
    first = rig.helper
    os.kill(first, signal.SIGKILL)
    await rig.until(lambda: rig.helper not in (0, first))
    rig.say("a", "epoch 1/4 loss 0.5")
    await rig.until(lambda: rig.following.of(token).fraction == 0.25)
    assert rig.notices == []


@rigged(task("a", metrics=(Metric("m", regex=r"m=(\d)", best="max"),)))
async def test_a_helper_that_does_not_answer_is_killed_and_nothing_seen_is_lost(rig: Rig) -> None:
    token = rig.run("a")
    rig.say("a", "m=9", "m=1")
    await rig.until(lambda: rig.following.of(token).metrics)
    first = rig.helper
    os.kill(first, signal.SIGSTOP)
    await rig.until(lambda: rig.waits() or rig.helper != first)
    rig.late_s += 120.0
    open(rig.logs.paths("a", 1, False).out, "w").close()
    rig.say("a", "m=2")
    await rig.until(lambda: rig.following.of(token).metrics == {"m": 2.0})
    assert rig.following.of(token).best == {"m": 9.0}
    await rig.until(lambda: not lives(first))


@rigged(task("a", metrics=(Metric("m", regex=r"m=(\d)"),)))
async def test_an_end_does_not_wait_for_a_helper_that_hangs(rig: Rig) -> None:
    token = rig.run("a")
    rig.say("a", "m=1")
    await rig.until(lambda: rig.following.of(token).metrics)
    os.kill(rig.helper, signal.SIGSTOP)
    told = rig.end(token)
    rig.late_s += 11.0
    await rig.until(lambda: told)
    assert told[0].metrics == {"m": 1.0}


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Helpers hang from now on: in which way, and at what."""

    def stick(how: str, what: int) -> None:
        monkeypatch.setattr(helper, "_MODULE", "tests.fakes.stuck_helper")
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        monkeypatch.setenv("STUCK", how)
        monkeypatch.setenv("STUCK_AT", str(what))

    return stick


def test_what_a_helper_that_computed_was_busy_with_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stuck: Callable[[str, int], None]
) -> None:
    stuck("spin", WATCH)

    @rigged(task("a", watch=Watch(pattern="x")))
    async def body(rig: Rig) -> None:
        rig.run("a")
        await rig.until(lambda: rig.notices)
        assert rig.notices == [
            "a: its pattern for watch takes seconds for a line and is not used any more: make it simpler"
        ]

    body(tmp_path, monkeypatch)


def test_files_that_do_not_answer_are_let_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stuck: Callable[[str, int], None]
) -> None:
    stuck("sleep", FILES)

    @rigged(task("a"))
    async def body(rig: Rig) -> None:
        rig.run("a")
        await rig.until(lambda: rig.helper)
        first = rig.helper
        await rig.until(lambda: rig.helper != first)
        rig.late_s += 5.0
        await rig.until(lambda: rig.helper)
        second = rig.helper
        for _ in range(40):
            rig.waits()
            await rig.turns()
        assert rig.helper == second, "it was not asked for the attempt that hung"
        assert rig.notices == []

    body(tmp_path, monkeypatch)


@rigged(task("a"))
async def test_the_helper_ends_when_nothing_runs(rig: Rig) -> None:
    token = rig.run("a")
    await rig.until(lambda: rig.helper)
    pid = rig.helper
    rig.end(token)
    await rig.until(lambda: rig.helper == 0)
    await rig.until(lambda: not lives(pid))


@rigged(task("a"))
async def test_the_helper_stays_in_the_engines_session(rig: Rig) -> None:
    rig.run("a")
    await rig.until(lambda: rig.helper)
    assert os.getsid(rig.helper) == os.getsid(0)


@rigged(task("a"))
async def test_where_no_helper_can_be_started_ends_are_told_at_once(rig: Rig) -> None:
    os.environ["PYTHONHOME"] = "/nowhere"
    try:
        token = rig.run("a")
        await rig.until(lambda: rig.notices)
    finally:
        del os.environ["PYTHONHOME"]
    assert "its helper process does not start" in rig.notices[0]
    assert len(rig.end(token)) == 1
