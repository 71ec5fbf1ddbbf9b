"""The dashboard as it looks, in what a deck comes to."""

from __future__ import annotations

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from gpudeck.engine.protocol.messages import Counts
from tests.fakes.snapshot_deck import NEXT_CLOSED, ROWS, ended, head, row
from tests.fakes.snapshot_gpus import EIGHT, gpu, remember
from tests.fakes.snapshot_rig import LARGE, LIVE, MIDDLE, NOW_S, SMALL, Size, at, shown, snapshot_of, whole
from tests.fakes.snapshot_tasks import FAILED, NEVER, RUNNING, answer, write_failed, write_running
from tests.inside.tui import Config, Link

ANSWERS = {"show": answer(FAILED, RUNNING, NEVER)}
MID_RUN = whole(ROWS, head(), EIGHT)


@at(SMALL, MIDDLE, LARGE)
async def test_mid_run(pictures: SnapshotAssertion, size: Size) -> None:
    write_running()

    async with snapshot_of(MID_RUN, size, before=remember, answers=ANSWERS) as rig:
        await rig.press(*["j"] * 6)
        await rig.until_seen("epoch 12/20 loss")
        assert await rig.still() == pictures


@at(SMALL)
async def test_last_tasks_of_a_run(pictures: SnapshotAssertion, size: Size) -> None:
    async with snapshot_of(MID_RUN, size) as rig:
        await rig.press("G")
        await rig.until_seen("▌ ○", "has not started")
        assert await rig.still() == pictures


@at(SMALL)
def test_empty_deck(pictures: SnapshotAssertion, size: Size) -> None:
    nothing = head((), run=0, eta_s=None, slots=2, started=0.0)
    assert shown(whole((), nothing, (gpu(0), gpu(1))), size) == pictures


@at(SMALL)
def test_finished_deck(pictures: SnapshotAssertion, size: Size) -> None:
    rows = tuple(ended(at, f"train-{at}", "succeeded", 600 + at, 60 * (9 - at), at % 2) for at in range(8))
    over = head(rows, ended=True, eta_s=None, slots=2)
    assert shown(whole(rows, over, (gpu(0), gpu(1))), size) == pictures


@at(MIDDLE)
async def test_sorted_with_sparklines(pictures: SnapshotAssertion, size: Size) -> None:
    async with snapshot_of(MID_RUN, size) as rig:
        changed = msgspec.structs.replace(ROWS[6], metrics={"loss": 0.9}, curve=(2.9, 2.2, 1.4, 1.6, 0.9))
        await rig.brings(rows={6: changed})
        await rig.press("s")
        await rig.until_seen("sorted by state")
        assert await rig.still() == pictures


# -- filter and marks -------------------------------------------------------------------------------------------------


@at(MIDDLE)
async def test_filter_for_what_failed_with_its_log(pictures: SnapshotAssertion, size: Size) -> None:
    write_failed()

    async with snapshot_of(MID_RUN, size, answers=ANSWERS) as rig:
        await rig.types("slash", "state:failed")
        await rig.press("enter", "g")
        await rig.until_seen("OutOfMemoryError")
        assert await rig.still() == pictures


@at(SMALL)
async def test_filter_that_is_being_typed_wrongly(pictures: SnapshotAssertion, size: Size) -> None:
    async with snapshot_of(MID_RUN, size) as rig:
        await rig.types("slash", "state:fail tga:x")
        assert await rig.still() == pictures


@at(SMALL)
async def test_marks(pictures: SnapshotAssertion, size: Size) -> None:
    async with snapshot_of(MID_RUN, size) as rig:
        await rig.press("j", "j", "space", "space", "j", "space")
        assert await rig.still() == pictures


# -- what keeps it from going on --------------------------------------------------------------------------------------


@at(SMALL)
def test_notes(pictures: SnapshotAssertion, size: Size) -> None:
    """More than there is room for."""
    problem = 'tasks.toml:14: task "train": gpus must be at least 0, got -1'
    why = ("5 waiting: round 1 is closed", "1 held")
    more = head(
        file_problem=problem, paused="by ada", waiting_why=why, rounds=(NEXT_CLOSED,), shut_rounds=(NEXT_CLOSED,)
    )
    assert shown(whole(ROWS, more, EIGHT[:2]), size) == pictures


@at(SMALL)
def test_loading_a_large_deck(pictures: SnapshotAssertion, size: Size) -> None:
    rows = tuple(row(at, f"train-{at:05}") for at in range(500))
    counts = Counts(total=12_000, queued=11_000, running=8, succeeded=992)
    assert shown(whole(rows, head((), counts=counts), EIGHT, whole=False, total=12_000), size) == pictures


@at(SMALL)
@pytest.mark.parametrize(
    "link",
    [
        pytest.param(Link("silent", "the engine (pid 4711) does not answer", 4711, silent_s=65.0), id="silent"),
        pytest.param(Link("files", "no engine runs it", read_only=True, as_of=NOW_S - 5400), id="files"),
    ],
)
def test_without_an_engine(pictures: SnapshotAssertion, size: Size, link: Link) -> None:
    assert shown(whole(ROWS[:9], head(ROWS[:9]), EIGHT[:2], link), size, before=remember) == pictures


@at(SMALL)
def test_before_an_engine_has_answered(pictures: SnapshotAssertion, size: Size) -> None:
    assert shown(whole((), None, (), Link("connecting"), whole=False), size) == pictures


@at(SMALL)
def test_no_gpu(pictures: SnapshotAssertion, size: Size) -> None:
    rows = (*ROWS[:6], msgspec.structs.replace(ROWS[6], gpus=(), needs_gpus=0))
    assert shown(whole(rows, head(rows, on_cpu=True, slots=4)), size) == pictures


# -- colours ----------------------------------------------------------------------------------------------------------


@at(MIDDLE)
def test_light_theme(pictures: SnapshotAssertion, size: Size) -> None:
    assert shown(MID_RUN, size, before=remember, config=Config(theme="gpudeck-light")) == pictures


@at(SMALL)
def test_without_colours(pictures: SnapshotAssertion, size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(MID_RUN, size, before=remember) == pictures


def test_a_run_that_began_before(pictures: SnapshotAssertion) -> None:
    """Times of other days are told with their day."""
    rows = (msgspec.structs.replace(ROWS[13], retry_at=NOW_S + 90_000), ROWS[6])
    assert shown(whole(rows, head(rows, eta_s=300_000.0), EIGHT[:2], LIVE), (120, 40)) == pictures
