"""Logs over the whole screen, over a real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.screen_rig import SIZES, OnDeck, ScreenRig, over
from tests.fakes.snapshot_deck import ROWS, head
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_rig import snapshot_of, whole
from tests.fakes.snapshot_tasks import FAILED, RUNNING, answer, write_failed, write_running
from tests.inside.tui import (
    Choice,
    Dashboard,
    LogScreen,
    LogStream,
    LogView,
    OpenLogs,
    deck_screen,
    logs,
    paged,
    with_content,
)

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
def on_deck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnDeck:
    """Runs a body over the deck once `t2` has failed and the others run."""
    monkeypatch.setattr(logs, "PERIOD_S", 0.1)
    return over(
        tmp_path, DECK, {"t2": "failed", "t1": "running", "t3": "running", "t4": "running", "t5": "running"}, script=RUN
    )


async def opened(rig: ScreenRig, *names: str, **how: Any) -> LogScreen:
    rig.app.screen.post_message(OpenLogs(names, **how))
    await rig.until(lambda: isinstance(rig.app.screen, LogScreen), "logs are open")
    screen = rig.app.screen
    assert isinstance(screen, LogScreen)
    return screen


async def test_marked_tasks_are_shown_beside_each_other_and_keys_act_on_the_one_that_has_them(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        await rig.press("g", "space", "j", "space", "k")
        await rig.until_seen("this is task 3")  # below the table; keys go to the first log all the same
        await rig.press("l")
        await rig.until(lambda: isinstance(rig.app.screen, LogScreen), "logs are open")
        screen = rig.app.screen
        assert isinstance(screen, LogScreen)
        await rig.until(
            lambda: any("this is task 1" in line and "this is task 3" in line for line in rig.text().splitlines())
        )
        assert screen.targets() == ("t1",)
        await rig.press("tab")
        await rig.until(lambda: screen.targets() == ("t3",), "the keys are the other's")
        await rig.press("H")
        await rig.until(lambda: rig.row("t3").held, "it is held")
        assert not rig.row("t1").held
        await rig.press("l")
        await rig.until(lambda: isinstance(rig.app.screen, Dashboard), "l closes them")
        await opened(rig, "t1", "t2", "t3", "t4", "t5")
        await rig.until_seen("the first 4 of 5 logs")


async def test_the_title_follows_the_deck_and_a_toast_leaves_the_line_below_the_log_free(on_deck: OnDeck) -> None:
    async with on_deck(size=(80, 24)) as rig:
        await rig.press("g", "l")
        await rig.until(lambda: isinstance(rig.app.screen, LogScreen), "the log is open")
        await rig.until_seen("this is task 1")
        await rig.until_seen("● t1 · running")
        await rig.until_seen("following")
        await rig.press("r")
        await rig.until_seen("r retries what")
        said = rig.app.screen.query("Toast").first().region
        assert not [status for status in rig.app.screen.query(".log-status") if status.region.overlaps(said)]

        lines = rig.text().splitlines()
        await rig.pilot.click(offset=(lines[-1].index("follow"), len(lines) - 1))
        await rig.until(lambda: "following" not in rig.text(), "a click on the key bar acts on the log")
        await rig.press("v")
        await rig.until_seen("this terminal cannot be lent")
        await rig.press("K")
        await rig.until(lambda: isinstance(rig.app.screen, Choice), "a question")
        await rig.press("y")
        await rig.until_seen("– t1 · cancelled")


async def test_the_next_attempt_takes_the_place_of_the_newest_and_one_that_was_chosen_stays(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        await opened(rig, "t2", first_error=True)
        await rig.until_seen("errors 1/1")
        await rig.until_seen("run 1 of 2")
        await rig.press("r")
        await rig.until_seen("run 2 of 2")
        await rig.until_seen("attempt 2 of 2")
        await rig.press("left_square_bracket")
        await rig.until_seen("run 1 of 2")
        await rig.until_state("t2", "failed")
        await rig.press("r")
        await rig.until(lambda: rig.row("t2").attempt == 3, "it runs a third time")
        await rig.until_seen("✗ t2 · attempt 1 failed (exit 3) · 3 attempts")
        assert "run 1 of 2" in rig.text()


async def test_one_escape_leaves_a_log_that_began_at_its_first_error(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        await opened(rig, "t2", first_error=True)
        await rig.until_seen("errors 1/1")
        log = rig.app.screen
        await rig.press("x")  # a search of the user's own
        await rig.press("escape")
        await rig.until(lambda: "errors 1/1" not in rig.text(), "the search has ended")
        assert rig.app.screen is log
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is not log, "the log is left")
        await opened(rig, "t2", first_error=True)
        await rig.until_seen("errors 1/1")
        log = rig.app.screen
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is not log, "the log is left at once")


async def test_tab_goes_from_stream_to_stream_and_then_from_log_to_log_or_pane(
    on_deck: OnDeck, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_deck() as rig:
        await rig.press("g", "j")
        log = rig.app.screen.query_one(LogView)
        await rig.until(
            lambda: sum(each.display and each.started for each in log.query(LogStream)) == 2, "both streams"
        )
        while not log.has_focus_within:
            await rig.press("tab")
        ends = [log.active.path.rpartition(".")[2]]
        await rig.press("tab")
        ends.append(log.active.path.rpartition(".")[2])
        await rig.press("tab")
        assert (ends, log.has_focus_within) == (["log", "err"], False)

        paged_files: list[str] = []

        def lend(_app: object, command: list[str]) -> str:
            paged_files.extend(command)
            return ""

        monkeypatch.setattr(deck_screen, "run_outside", lend)
        await rig.press("v")
        await rig.until(lambda: paged_files, "the pager")
        assert [file.rpartition(".")[2] for file in paged_files[-2:]] == ["err", "log"]

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


async def test_every_size_can_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_failed()
    write_running()

    async with snapshot_of(whole(ROWS, head(), EIGHT), (20, 5), answers={"show": answer(FAILED, RUNNING)}) as rig:
        rig.app.screen.post_message(OpenLogs((FAILED["name"], RUNNING["name"])))
        await rig.until_on(LogScreen)
        for size in ((20, 5), *SIZES, (40, 10), (1, 1), (20, 5)):
            await rig.pilot.resize_terminal(*size)
            await rig.press("j", "G", "tab", "w")
        assert rig.app.is_running
