"""The helper process that follows logs: it dies, hangs, is not needed or cannot be had."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudeck.engine.core.spec import Metric, Watch
from tests.fakes.following_rig import Rig, rigged, task
from tests.fakes.local_rig import lives
from tests.inside.attempts import FILES, WATCH, helper


@rigged(task("a"))
async def test_a_helper_that_dies_is_replaced(rig: Rig) -> None:
    token = rig.run("a")
    await rig.until(lambda: rig.helper)
    first = rig.helper
    os.kill(first, signal.SIGKILL)
    await rig.until(lambda: rig.waits() or rig.helper not in (0, first))
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
def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], Path]:
    """Helpers hang from now on: in which way, and at what. Each makes a file when it does."""

    def stick(how: str, what: int) -> Path:
        monkeypatch.setattr(helper, "_MODULE", "tests.fakes.stuck_helper")
        monkeypatch.setenv("STUCK", how)
        monkeypatch.setenv("STUCK_AT", str(what))
        monkeypatch.setenv("STUCK_MARK", str(tmp_path / "stuck"))
        return tmp_path / "stuck"

    return stick


@rigged(task("a", watch=Watch(pattern="x")))
async def test_what_a_helper_that_computed_was_busy_with_is_given_up(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, stuck: Callable[[str, int], Path]
) -> None:
    mark = stuck("spin", WATCH)
    monkeypatch.setattr(helper, "HUNG_CPU_S", 0.2)
    monkeypatch.setattr(helper, "BLAMED_CPU_S", 0.1)
    rig.run("a")
    await rig.until(mark.exists)
    rig.late_s += 3.0
    await rig.until(lambda: rig.notices)
    assert rig.notices == [
        "a: its pattern for watch takes seconds for a line and is not used any more: make it simpler"
    ]


@rigged(task("a"))
async def test_files_that_do_not_answer_are_let_alone_for_a_while(rig: Rig, stuck: Callable[[str, int], Path]) -> None:
    mark = stuck("sleep", FILES)
    rig.run("a")
    await rig.until(lambda: rig.helper)
    first = rig.helper
    await rig.until(mark.exists)
    rig.late_s += 3.0
    await rig.until(lambda: rig.helper != first)
    rig.late_s += 5.0
    await rig.until(lambda: rig.helper)
    second = rig.helper
    for _ in range(13):
        rig.late_s += 1.5
        await rig.turns()
    assert rig.helper == second, "it was not asked for the attempt that hung"
    assert rig.notices == []


@rigged(task("a"))
async def test_the_helper_ends_when_nothing_runs(rig: Rig) -> None:
    token = rig.run("a")
    await rig.until(lambda: rig.helper)
    pid = rig.helper
    rig.end(token)
    await rig.until(lambda: rig.helper == 0)
    await rig.until(lambda: not lives(pid))


@rigged(task("a"), fork=False)
async def test_the_helper_stays_in_the_engines_session(rig: Rig) -> None:
    rig.run("a")
    await rig.until(lambda: rig.helper)
    assert os.getsid(rig.helper) == os.getsid(0)


@rigged(task("a"), fork=False)
async def test_where_no_helper_can_be_started_ends_are_told_at_once(rig: Rig) -> None:
    os.environ["PYTHONHOME"] = "/nowhere"
    try:
        token = rig.run("a")
        await rig.until(lambda: rig.waits() or rig.notices)
    finally:
        del os.environ["PYTHONHOME"]
    assert "its helper process does not start" in rig.notices[0]
    assert len(rig.end(token)) == 1
