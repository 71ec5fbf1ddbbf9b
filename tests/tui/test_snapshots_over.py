"""What lies over a screen as it looks: help, palette, questions, toasts."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from gpudeck.engine.errors import EngineUnavailableError
from tests.fakes.snapshot_deck import OOM, ROWS, ended, head
from tests.fakes.snapshot_gpus import EIGHT, TROUBLED
from tests.fakes.snapshot_rig import MIDDLE, SMALL, Size, SnapshotRig, at, shown, snapshot_of, whole
from tests.inside.tui import Choice, Config

MID_RUN = whole(ROWS, head(), EIGHT)
PLAN = {
    "added": ["train-new-1", "train-new-2"], "changed_finished": [{"name": "train-sym-0.25", "what": ["command"]}],
    "changed_running": [{"name": "train-asym-0.125", "what": ["env"]}],
}  # fmt: skip
APPLY = {
    "changes": True, "plan": PLAN, "digest": "d00f",
    "lines": [
        "added                 train-new-1, train-new-2: they start when they can",
        "changed, finished     train-sym-0.25 (command): they run again, unless their results are kept (--keep)",
        "changed, running      train-asym-0.125 (env): they end as they were started, then are changed",
        "[deck] slots_per_gpu  1 -> 2: now",
    ],
}  # fmt: skip


async def asked(rig: SnapshotRig, *keys: str) -> None:
    """Press keys, and wait for the question that they lead to."""
    await rig.press(*keys)
    await rig.until_on(Choice)


def question(size: Size, *keys: str, **how: Any) -> str:
    async def steps(rig: SnapshotRig) -> None:
        await asked(rig, *keys)

    return shown(how.pop("change", MID_RUN), size, steps, **how)


# -- help and palette -------------------------------------------------------------------------------------------------


@at(SMALL, MIDDLE)
async def test_help(pictures: SnapshotAssertion, size: Size) -> None:
    async with snapshot_of(MID_RUN, size) as rig:
        await rig.press("question_mark")
        await rig.until_seen("Tasks")
        assert await rig.still() == pictures


@at(SMALL)
async def test_end_of_the_help(pictures: SnapshotAssertion, size: Size) -> None:
    async with snapshot_of(MID_RUN, size) as rig:
        await rig.press("question_mark")
        await rig.until_seen("Tasks")
        await rig.press("end")
        await rig.until_seen("On the errors")
        assert await rig.still() == pictures


@at(SMALL)
def test_help_with_a_configuration_that_is_wrong(pictures: SnapshotAssertion, size: Size) -> None:
    problem = "~/.config/gpudeck/config.toml: keys.retri: no such action; `?` in the screen and docs/keys.md list them"

    async def steps(rig: SnapshotRig) -> None:
        await rig.press("question_mark")
        await rig.until_seen("Tasks")

    config = Config(keys={"retry": "ctrl+t", "leave": "x,q"}, problems=(problem,))
    assert shown(MID_RUN, size, steps, config=config) == pictures


@at(SMALL)
async def test_palette_that_searches(pictures: SnapshotAssertion, size: Size) -> None:
    async with snapshot_of(MID_RUN, size) as rig:
        await rig.press("ctrl+p")
        await rig.until_seen("apply  (a)")
        await rig.types("r", "etry")
        await rig.until_seen("Retry by choice")
        assert await rig.still() == pictures


# -- questions --------------------------------------------------------------------------------------------------------


@at(SMALL)
def test_question_before_many_are_cancelled(pictures: SnapshotAssertion, size: Size) -> None:
    assert question(size, "A", "c") == pictures


@at(SMALL)
def test_menu_of_retries_with_much_to_choose(pictures: SnapshotAssertion, size: Size) -> None:
    kinds = ("oom", "exit", "timeout", "lost", "watch", "signal", "missing output")
    rows = [ended(at, f"sweep-{at}", "failed", 60, 60, at % 8, reason=OOM, kind=kinds[at % 7]) for at in range(40)]
    change = whole(rows, head(tuple(rows)), EIGHT)
    assert question(size, "R", change=change) == pictures


@at(SMALL)
def test_question_of_what_to_stop(pictures: SnapshotAssertion, size: Size) -> None:
    assert question(size, "Q") == pictures


@at(SMALL)
def test_question_before_the_file_is_applied(pictures: SnapshotAssertion, size: Size) -> None:
    change = whole(ROWS, head(file_plan="2 added; 1 changed, finished; 1 changed, running"), EIGHT)
    assert question(size, "a", change=change, answers={"apply": APPLY}) == pictures


@at(SMALL)
def test_question_before_a_gpu_is_taken(pictures: SnapshotAssertion, size: Size) -> None:
    assert question(size, "tab", "down", "T", change=whole(ROWS, head(), TROUBLED)) == pictures


@pytest.mark.parametrize("theme", ["gpudeck-light"])
async def test_question_in_the_light_theme(pictures: SnapshotAssertion, theme: str) -> None:
    async with snapshot_of(MID_RUN, (80, 24), config=Config(theme=theme)) as rig:
        await rig.press(*["j"] * 6)
        await rig.until_seen("─train-asym-0.125─")
        await asked(rig, "c")
        assert await rig.still() == pictures


# -- toasts -----------------------------------------------------------------------------------------------------------


@at(SMALL)
async def test_toasts(pictures: SnapshotAssertion, size: Size) -> None:
    """What has been done, and what cannot be."""

    async with snapshot_of(MID_RUN, size, answers={"retry": {"tasks": [], "undo": "7", "note": ""}}) as rig:
        await rig.press(*["j"] * 4, "r")
        await rig.until_seen("runs again")
        await rig.press("k", "r")
        await rig.until_seen("R has more")
        assert await rig.still() == pictures


@at(SMALL)
async def test_toast_of_a_refusal(pictures: SnapshotAssertion, size: Size) -> None:
    why = "no engine answers: this deck runs on gpu7 (4 tasks, engine 8123): ssh -t gpu7 gpudeck [red]tasks.toml[/]"

    async with snapshot_of(MID_RUN, size, answers={"retry": EngineUnavailableError(why)}) as rig:
        await rig.press(*["j"] * 4, "r")
        await rig.until_seen("no engine answers")
        assert await rig.still() == pictures
