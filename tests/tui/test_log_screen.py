"""Logs over the whole screen, over a real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpudeck.tests.fakes.screen_rig import SIZES, OnDeck, ScreenRig, over
from gpudeck.tui.log_source import paged
from gpudeck.tui.messages import OpenLogs
from gpudeck.tui.outside import with_content
from gpudeck.tui.screens import deck_screen
from gpudeck.tui.screens.choice import Choice
from gpudeck.tui.screens.dashboard import Dashboard
from gpudeck.tui.screens.logs import LogScreen
from gpudeck.tui.widgets.log.view import LogView

DECK = """
[deck]
gpus = "sim:5"
halt = "never"
[[task]]
name = "t{n}"
matrix.n = [1, 2, 3, 4, 5]
command = ["sh", "run.sh", "{n}"]
"""
RUN = """
echo "this is task $1"
case $1 in
2) echo one more >> ran; echo "run $(wc -l < ran) of 2"; echo "RuntimeError: too"; echo "ValueError: bad" >&2; exit 3;;
*) sleep 1000;;
esac
"""


@pytest.fixture
def on_deck(tmp_path: Path) -> OnDeck:
    """Runs a body over the deck once `t2` has failed and the others run."""
    return over(
        tmp_path, DECK, {"t2": "failed", "t1": "running", "t3": "running", "t4": "running", "t5": "running"}, script=RUN
    )


async def opened(rig: ScreenRig, *names: str, **how: Any) -> LogScreen:
    rig.app.screen.post_message(OpenLogs(names, **how))
    await rig.until(lambda: isinstance(rig.app.screen, LogScreen), "logs are open")
    screen = rig.app.screen
    assert isinstance(screen, LogScreen)
    return screen


def test_l_opens_the_log_of_the_task_under_the_cursor_and_l_closes_it(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "l")
        await rig.until(lambda: isinstance(rig.app.screen, LogScreen))
        await rig.until_seen("this is task 1")
        await rig.press("l")
        await rig.until(lambda: isinstance(rig.app.screen, Dashboard))

    on_deck(body)


def test_marked_tasks_are_shown_beside_each_other(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "space", "j", "space", "l")
        await rig.until(lambda: isinstance(rig.app.screen, LogScreen))
        await rig.until(
            lambda: any("this is task 1" in line and "this is task 3" in line for line in rig.text().splitlines())
        )

    on_deck(body)


def test_of_more_than_four_the_first_four_are_shown_and_that_is_said(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "t1", "t2", "t3", "t4", "t5")
        await rig.until_seen("the first 4 of 5 logs")

    on_deck(body)


def test_titles_follow_the_deck(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "t1")
        await rig.until_seen("● t1 · running")
        await rig.press("K")
        await rig.until(lambda: isinstance(rig.app.screen, Choice))
        await rig.press("y")
        await rig.until_seen("– t1 · cancelled")

    on_deck(body)


def test_the_next_attempt_takes_the_place_of_the_newest(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "t2")
        await rig.until_seen("run 1 of 2")
        await rig.press("r")
        await rig.until_seen("run 2 of 2")
        await rig.until_seen("attempt 2 of 2")

    on_deck(body)


def test_an_attempt_that_was_chosen_stays(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "t2")
        await rig.until_seen("run 1 of 2")
        await rig.press("r")
        await rig.until_seen("run 2 of 2")
        await rig.press("left_square_bracket")
        await rig.until_seen("run 1 of 2")
        await rig.press("r")
        await rig.until(lambda: rig.row("t2").attempt == 3)
        await rig.until_seen("✗ t2 · attempt 1 failed (exit 3) · 3 attempts")
        assert "run 1 of 2" in rig.text()

    on_deck(body)


def test_tab_goes_to_the_next_log_and_keys_act_on_its_task(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "t1", "t3")
        await rig.until_seen("this is task 3")
        assert screen.targets() == ("t1",)
        await rig.press("tab")
        await rig.until(lambda: screen.targets() == ("t3",))
        await rig.press("H")
        await rig.until(lambda: rig.row("t3").held)
        assert not rig.row("t1").held

    on_deck(body)


def test_it_can_begin_at_the_first_error(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "t2", first_error=True)
        await rig.until_seen("errors 1/1")

    on_deck(body)


def test_tab_goes_from_stream_to_stream_and_then_from_log_to_log(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "t2", "t3")
        await rig.until_seen("ValueError: bad")
        await rig.until_seen("this is task 3")
        seen: list[tuple[str, str]] = []
        for key in ("tab", "tab", "tab", "shift+tab", "shift+tab"):
            await rig.press(key)
            view = next(view for view in screen.query(LogView) if view.has_focus_within)
            stream = view.active
            assert stream.has_focus
            assert view.source is not None
            seen.append((view.source.task, stream.path.rpartition(".")[2]))
        assert seen == [("t2", "err"), ("t3", "log"), ("t2", "log"), ("t3", "log"), ("t2", "err")]

    on_deck(body)


def test_on_the_dashboard_tab_goes_through_both_streams_before_it_leaves_the_log(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "j")
        await rig.until_seen("ValueError: bad")
        log = rig.app.screen.query_one(LogView)
        while not log.has_focus_within:
            await rig.press("tab")
        ends = [log.active.path.rpartition(".")[2]]
        await rig.press("tab")
        ends.append(log.active.path.rpartition(".")[2])
        await rig.press("tab")
        assert (ends, log.has_focus_within) == (["log", "err"], False)

    on_deck(body)


def test_the_pager_gets_stderr_first_of_what_failed_and_stdout_alone_of_what_runs() -> None:
    def attempt(number: int, kind: str, err: str = "e") -> dict[str, Any]:
        return {"number": number, "kind": kind, "log": f"o{number}", "err": f"{err}{number}"}

    details: dict[str, Any] = {
        "name": "t",
        "attempts": [attempt(1, "exit"), attempt(2, "ok"), attempt(3, "exit", "o")],
        "running": {"number": 4, "log": "o4", "err": "e4"},
    }
    assert [paged(details, number) for number in (1, 2, 3, 4, 0)] == [
        ("e1", "o1"), ("o2",), ("o3",), ("o4",), ("o4",),
    ]  # fmt: skip
    assert paged({"name": "t"}) == ()


def test_of_several_files_the_empty_ones_are_not_paged(tmp_path: Path) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.touch()
    full.write_text("words")

    assert with_content([str(empty), str(full)]) == [str(full)]
    assert with_content([str(empty), str(tmp_path / "none")]) == [str(empty)]
    assert with_content([str(empty)]) == [str(empty)]


def test_v_on_a_task_that_failed_pages_its_stderr(on_deck: OnDeck, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(rig: ScreenRig) -> None:
        paged_files: list[str] = []

        def lend(_app: object, command: list[str]) -> str:
            paged_files.extend(command)
            return ""

        monkeypatch.setattr(deck_screen, "run_outside", lend)
        await rig.press("g", "j", "v")
        await rig.until(lambda: paged_files, "the pager")
        assert [file.rpartition(".")[2] for file in paged_files[-2:]] == ["err", "log"]

    on_deck(body)


def test_a_click_on_the_key_bar_acts_on_the_log(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "t1")
        await rig.until_seen("following")
        lines = rig.text().splitlines()
        await rig.pilot.click(offset=(lines[-1].index("follow"), len(lines) - 1))
        await rig.until(lambda: "following" not in rig.text())

    on_deck(body)


def test_v_on_a_terminal_that_cannot_be_lent_is_said(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "t1")
        await rig.until_seen("this is task 1")
        await rig.press("v")
        await rig.until_seen("this terminal cannot be lent")

    on_deck(body)


@pytest.mark.parametrize("size", [*SIZES, (40, 10), (20, 5)])
def test_every_size_can_be_drawn(on_deck: OnDeck, size: tuple[int, int]) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "t1", "t2", "t3")
        await rig.press("j", "G", "tab", "w")
        assert rig.app.is_running

    on_deck(body, size=size)


def test_what_is_said_in_the_corner_leaves_the_line_below_the_log_free(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "t1")
        await rig.until_seen("this is task 1")
        await rig.press("r")
        await rig.until_seen("r retries what")
        said = screen.query("Toast").first().region
        assert not [status for status in screen.query(".log-status") if status.region.overlaps(said)]

    on_deck(body, size=(80, 24))
