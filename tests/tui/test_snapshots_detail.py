"""The page about a task as it looks."""

from __future__ import annotations

from typing import Any

from syrupy.assertion import SnapshotAssertion

from tests.fakes.snapshot_deck import ROWS, head
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_rig import LARGE, MIDDLE, SMALL, Size, SnapshotRig, Steps, at, shown, snapshot_of, whole
from tests.fakes.snapshot_tasks import FAILED, NEVER, RUNNING, WAITING, answer, write_failed, write_running
from tests.inside.tui import WORDS, Detail, DetailView, OpenTask

ANSWERS = {"show": answer(FAILED, RUNNING, WAITING, NEVER)}


def page_of(name: str, size: Size, *seen: str, steps: Steps | None = None) -> str:
    async def whole_way(rig: SnapshotRig) -> None:
        rig.app.screen.post_message(OpenTask(name))
        await rig.until(lambda: isinstance(rig.app.screen, Detail), "the page is open")
        await rig.until_said(*seen)
        if steps is not None:
            await steps(rig)

    return shown(whole(ROWS, head(), EIGHT), size, whole_way, answers=ANSWERS)


async def to_the_end(rig: SnapshotRig) -> None:
    await rig.press("G")


@at(SMALL, LARGE)
def test_running_with_curves(pictures: SnapshotAssertion, size: Size) -> None:
    write_running()
    assert page_of("train-asym-0.125", size, "loss", "lr", "gpu7") == pictures


@at(SMALL)
def test_running_scrolled_to_the_end(pictures: SnapshotAssertion, size: Size) -> None:
    write_running()
    assert page_of("train-asym-0.125", size, "loss", "lr", "gpu7", steps=to_the_end) == pictures


@at(SMALL, MIDDLE)
def test_failed_with_attempts(pictures: SnapshotAssertion, size: Size) -> None:
    write_failed()
    assert page_of("train-sym-0.5", size, "OutOfMemoryError", "44.8 GiB", "min 1.533") == pictures


@at(SMALL)
def test_attempt_before(pictures: SnapshotAssertion, size: Size) -> None:
    write_failed()

    async def steps(rig: SnapshotRig) -> None:
        await rig.press("left_square_bracket")
        await rig.until_said("Attempt 2", "rung 1", "min 2.4")

    assert page_of("train-sym-0.5", size, "OutOfMemoryError", steps=steps) == pictures


@at(SMALL)
def test_link_under_the_cursor(pictures: SnapshotAssertion, size: Size) -> None:
    async def steps(rig: SnapshotRig) -> None:
        await rig.press("tab", "tab")

    assert page_of("distill-ddp", size, "Waits for", steps=steps) == pictures


@at(SMALL)
def test_never_run(pictures: SnapshotAssertion, size: Size) -> None:
    assert page_of("prepare", size, "Command") == pictures


async def test_what_the_engine_has_said_is_not_replaced_by_waiting_for_it() -> None:
    asked: list[str] = []
    shows: list[str] = []

    def unknown(tasks: list[str]) -> list[Any]:
        asked.extend(tasks)
        return []

    async with snapshot_of(whole(ROWS, head(), EIGHT), (80, 24), answers={"show": unknown}) as rig:
        rig.app.screen.post_message(OpenTask("train-both-0.625"))
        await rig.until(lambda: isinstance(rig.app.screen, Detail), "the page is open")
        view = rig.app.screen.query_one(DetailView)
        await rig.until_said("no task 'train-both-0.625' in this deck")

        def asked_again() -> bool:
            shows.append("\n".join("".join(span.text for span in line) for line in view.lines))
            return len(asked) > 1

        await rig.until(asked_again, "it is asked again, which is later than waiting would be said")
    assert not [text for text in shows if WORDS in text]
