"""Questions over a real deck: what answers them, what does not, and what lies below."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Button

from gpudeck.tests.fakes.screen_rig import OnDeck, ScreenRig, over
from gpudeck.tui.screens.choice import Choice
from gpudeck.tui.screens.dashboard import Dashboard
from gpudeck.tui.widgets.table import task_table
from gpudeck.tui.widgets.table.task_table import TaskTable

DECK = """
[deck]
gpus = "sim:2"
halt = "never"
[[task]]
name = "long"
command = ["sleep", "1000"]
[[task]]
name = "bad"
command = ["sh", "-c", "[ -e good ] && sleep 1000; exit 3"]
[[task]]
name = "fine"
command = ["true"]
"""


@pytest.fixture
def on_deck(tmp_path: Path) -> OnDeck:
    """Runs a body over the deck once `bad` has failed, `fine` is done and `long` runs."""
    return over(tmp_path, DECK, {"bad": "failed", "fine": "succeeded", "long": "running"})


def questions(rig: ScreenRig) -> int:
    return sum(isinstance(screen, Choice) for screen in rig.app.screen_stack)


async def asked(rig: ScreenRig, key: str) -> None:
    await rig.press(key)
    await rig.until(lambda: isinstance(rig.app.screen, Choice) and rig.app.screen.is_mounted, "a question")


def test_a_key_that_is_pressed_twice_ends_nothing(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        for key in ("c", "K"):
            await rig.press("g", key, key, key)
            await rig.until(lambda: questions(rig) == 1, "one question")
            await rig.press("escape")
            await rig.until(lambda: isinstance(rig.app.screen, Dashboard), "it closes, and no other lies below")
        assert rig.row("long").state == "running"

    on_deck(body)


def test_the_key_that_answers_does_nothing_on_the_screen_below(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await asked(rig, "Q")
        await rig.press("t")
        await rig.until(lambda: not questions(rig), "it is answered")
        assert isinstance(rig.app.screen, Dashboard)

    on_deck(body)


def test_the_same_key_pauses_and_lets_go_on(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await asked(rig, "P")
        await rig.press("P")
        await rig.until(lambda: rig.app.deck.head and rig.app.deck.head.paused, "it is paused")
        await rig.press("P")
        await rig.until(lambda: rig.app.deck.head and not rig.app.deck.head.paused, "it goes on")

    on_deck(body)


def test_a_retry_in_a_pause_says_so_and_a_paused_deck_promises_no_end(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await asked(rig, "P")
        await rig.press("p")
        await rig.until(lambda: rig.app.deck.head and rig.app.deck.head.paused, "it is paused")
        await rig.press("g", "j", "r")
        await rig.until_seen("the deck is paused")
        assert " left" not in rig.text().splitlines()[1]

    on_deck(body)


def test_a_retry_that_has_started_is_not_said_to_be_taken_back_and_u_offers_to_cancel_it(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        (rig.deck.folder / "good").touch()
        await rig.press("g", "j", "r")
        await rig.until_seen("bad runs again")
        assert "u takes it back" not in rig.text()
        await rig.until_state("bad", "running")
        await asked(rig, "u")
        await rig.press("y")
        await rig.until_state("bad", "cancelled")

    on_deck(body)


def test_a_retry_of_what_the_run_leaves_out_is_not_said_to_run(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        with rig.deck.client() as client:
            client.request("change", only=["long"])
        await rig.press("g", "j", "r")
        await rig.until_seen("bad is left out of this run")
        assert "runs again" not in rig.text()

    on_deck(body)


def test_what_has_ended_cannot_be_held_and_that_is_said(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("G", "H")
        await rig.until_seen("only what has not ended can be held")
        assert not rig.row("fine").held

    on_deck(body)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_a_shows_the_plan_and_an_answer_applies_it(on_deck: OnDeck, size: tuple[int, int]) -> None:
    added = "".join(f'[[task]]\nname = "more-{n}"\ncommand = ["true"]\n' for n in range(3))

    async def body(rig: ScreenRig) -> None:
        rig.deck.write(DECK.replace('["true"]', '["true", "other"]') + added)
        await rig.until(lambda: rig.app.deck.head and rig.app.deck.head.file_plan, "the file has changed")
        await asked(rig, "a")
        await rig.until(lambda: rig.app.screen.query_one("#choice-answers").region.height > 2, "it is laid out")
        seen = " ".join(rig.text().replace("│", " ").split())
        assert "added more-0, more-1, more-2: they start when" in seen
        assert "changed, finished fine (command)" in seen
        await rig.press("a")
        assert questions(rig) == 1
        await rig.press("e")
        await rig.until_state("more-2", "succeeded", "cached")
        assert rig.row("fine").attempt == 1

    on_deck(body, size=size)


def test_a_key_that_comes_as_the_cursor_jumps_to_another_task_does_nothing(
    on_deck: OnDeck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_table, "JUMP_S", 1000.0)

    async def body(rig: ScreenRig) -> None:
        await rig.until_state("bad", "failed")
        await rig.until_state("worse", "failed")
        rig.app.screen.query_one(TaskTable).set_filter("state:failed")
        await rig.press("g")
        (rig.deck.folder / "good").touch()
        await rig.press("r")
        await rig.until(
            lambda: rig.app.screen.query_one(TaskTable).cursor_name == "worse", "the cursor is on the other"
        )
        await rig.press("r")
        await rig.until_seen("the cursor has just come to worse: nothing was done")
        assert rig.row("worse").attempt == 1
        await rig.press("k", "r")
        await rig.until_state("worse", "queued")

    on_deck(body, DECK + '[[task]]\nname = "worse"\ncommand = ["sh", "-c", "[ -e good ] && sleep 1000; exit 3"]\n')


def test_a_tells_what_is_wrong_with_a_broken_file_and_applies_nothing(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        rig.deck.write(DECK + "bogus = = 1\n")
        await rig.until(lambda: rig.app.deck.head and rig.app.deck.head.file_problem, "the file is broken")
        await rig.press("a")
        await rig.until_seen("the deck goes on as it was:")
        assert questions(rig) == 0
        assert "has not changed" not in rig.text()

    on_deck(body)


@pytest.mark.parametrize("key", ["c", "Q", "R", "P"])
def test_every_answer_and_its_key_can_be_read_at_80_columns(on_deck: OnDeck, key: str) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g")
        await asked(rig, key)
        await rig.pilot.pause()
        for button in rig.app.screen.query(Button):
            assert str(button.label).strip() in rig.text()

    on_deck(body, size=(80, 24))


def test_a_toast_lies_over_no_question(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "s")
        await rig.until_seen("sorted by")
        await asked(rig, "c")
        await rig.until(lambda: "sorted by" not in rig.text(), "the toast goes")
        await rig.press("escape")
        await rig.until_seen("sorted by")

    on_deck(body)


def test_marks_that_the_filter_hides_do_not_count(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("A", "slash", *"state:failed", "enter")
        await rig.until(lambda: rig.app.screen.targets() == ("bad",), "only bad is meant")  # pyright: ignore[reportAttributeAccessIssue]

    on_deck(body)


def test_marks_go_from_what_was_retried_and_stay_on_the_others(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("A", "r")
        await rig.until_seen("bad runs again")
        table = rig.app.screen.query_one("#table")
        await rig.until(lambda: table.marked == {"long", "fine"}, "bad is marked no more")  # pyright: ignore[reportAttributeAccessIssue]

    on_deck(body)
