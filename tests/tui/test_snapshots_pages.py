"""Errors, timeline and graph as they look."""

from __future__ import annotations

from typing import Any

from syrupy.assertion import SnapshotAssertion

from tests.fakes.snapshot_deck import ROWS, head
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_pages import (
    ATTEMPTS,
    FAILURES,
    GRAPH,
    builtins,
)  # fmt: skip
from tests.fakes.snapshot_rig import LARGE, MIDDLE, SMALL, Size, SnapshotRig, at, shown, whole
from tests.fakes.snapshot_tasks import write_failed
from tests.inside.tui import PageScreen


def page(key: str, answers: dict[str, Any], size: Size, seen: str, *keys: str) -> str:
    """What that key opens, then *keys*."""

    async def steps(rig: SnapshotRig) -> None:
        await rig.press(key)
        await rig.until(lambda: isinstance(rig.app.screen, PageScreen), "the page")  # the table has its names too
        await rig.until_seen(seen)
        await rig.press(*keys)

    told = {op: builtins(answer) for op, answer in answers.items()}
    return shown(whole(ROWS, head(), EIGHT), size, steps, answers=told)


# -- errors -----------------------------------------------------------------------------------------------------------


@at(SMALL)
def test_errors(pictures: SnapshotAssertion, size: Size) -> None:
    assert page("e", {"errors": FAILURES}, size, "timeout after 3 h") == pictures


@at(MIDDLE)
def test_errors_with_the_end_of_a_log(pictures: SnapshotAssertion, size: Size) -> None:
    write_failed()
    found = FAILURES.failures[:4]

    async def steps(rig: SnapshotRig) -> None:
        await rig.press("e")
        await rig.until_seen("OutOfMemoryError")

    told = {"errors": builtins(type(FAILURES)(total=4, failures=found))}
    assert shown(whole(ROWS, head(), EIGHT), size, steps, answers=told) == pictures


@at(SMALL)
def test_last_of_the_errors(pictures: SnapshotAssertion, size: Size) -> None:
    assert page("e", {"errors": FAILURES}, size, "timeout after 3 h", *["j"] * 6) == pictures


# -- timeline ---------------------------------------------------------------------------------------------------------


@at(SMALL, LARGE)
def test_timeline(pictures: SnapshotAssertion, size: Size) -> None:
    assert page("t", {"timeline": ATTEMPTS}, size, "train-asym-0.375") == pictures


@at(SMALL)
def test_timeline_zoomed(pictures: SnapshotAssertion, size: Size) -> None:
    assert page("t", {"timeline": ATTEMPTS}, size, "train-asym-0.375", "plus", "plus", "up", "left") == pictures


# -- graph ------------------------------------------------------------------------------------------------------------


@at(SMALL, MIDDLE)
def test_graph(pictures: SnapshotAssertion, size: Size) -> None:
    assert page("o", {"graph": GRAPH}, size, "prepare") == pictures


@at(SMALL)
def test_graph_behind_a_closed_round(pictures: SnapshotAssertion, size: Size) -> None:
    assert page("o", {"graph": GRAPH}, size, "prepare", *["right"] * 3) == pictures
