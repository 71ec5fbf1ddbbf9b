"""The dashboard over a real engine: keys are pressed, and what becomes of the tasks is looked at."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gpudeck.engine.adapters.processes import proc
from gpudeck.tests.fakes.screen_rig import SIZES, OnDeck, ScreenRig, over
from gpudeck.tui.acting.actions import ACTIONS, Action
from gpudeck.tui.screens.choice import Choice
from gpudeck.tui.settings.config import Config
from gpudeck.tui.settings.keys import RESERVED
from gpudeck.tui.widgets.table.task_table import TaskTable

DECK = """
[deck]
gpus = "sim:3"
halt = "never"
[[task]]
name = "{kind}"
matrix.kind = ["long", "bad", "later"]
command = ["sh", "run.sh", "{kind}"]
"""
RUN = """
echo "this is $1"
case $1 in
bad) echo once more >> ran; [ -e good ] || exit 3;;
*) sleep 1000;;
esac
"""
TUI = Path(__file__).parents[2] / "tui"


@pytest.fixture
def on_deck(tmp_path: Path) -> OnDeck:
    """Runs a body over the deck once `bad` has failed, `long` and `later` run."""
    return over(tmp_path, DECK, {"bad": "failed", "long": "running", "later": "running"}, script=RUN)


async def go_to(rig: ScreenRig, name: str) -> None:
    while rig.app.screen.targets() != (name,):  # pyright: ignore[reportAttributeAccessIssue]
        await rig.press("j")


def test_r_retries_the_failed_task_under_the_cursor(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        (rig.deck.folder / "good").touch()
        await go_to(rig, "bad")
        await rig.press("r")
        row = await rig.until_state("bad", "succeeded")
        assert row.attempt == 2

    on_deck(body)


def test_typing_a_filter_leaves_the_cursor_on_its_task(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        table = rig.app.screen.query_one(TaskTable)
        await go_to(rig, "later")
        await rig.press("slash", *"state:running")
        await rig.until(lambda: len(table.shown) == 2, "it filters")
        assert table.cursor_name == "later"
        await rig.press("backspace", *"g,failed", "enter")
        await rig.until(lambda: len(table.shown) == 3, "it filters otherwise")
        assert table.cursor_name == "later"

    on_deck(body)


def test_a_retry_on_a_paused_deck_says_that_it_is_paused(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        with rig.deck.client() as client:
            client.request("pause")
        await go_to(rig, "bad")
        await rig.press("r")
        await rig.until_seen("the deck is paused")

    on_deck(body)


def test_r_on_what_runs_does_nothing_and_says_so(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "r")
        await rig.until_seen("long is running")
        assert rig.row("long").attempt == 1

    on_deck(body)


def test_u_takes_back_a_hold(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "H")
        await rig.until(lambda: rig.row("long").held, "it is held")
        await rig.until_seen("u takes it back")
        await rig.press("u")
        await rig.until(lambda: not rig.row("long").held, "it is free again")

    on_deck(body)


def test_c_asks_and_enter_cancels_nothing(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "c")
        await rig.until_seen("Cancel long?")
        await rig.press("enter")
        await rig.until(lambda: not isinstance(rig.app.screen, Choice))
        assert rig.row("long").state == "running"

    on_deck(body)


def test_c_then_y_cancels_gracefully(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "c")
        await rig.until_seen("Cancel long?")
        await rig.press("y")
        await rig.until_state("long", "cancelled")

    on_deck(body)


def test_acts_are_for_the_marked_tasks(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "A", "K")
        await rig.until_seen("Kill 2 tasks at once?")
        await rig.press("y")
        await rig.until_state("long", "cancelled")
        await rig.until_state("later", "cancelled")

    on_deck(body)


def test_q_leaves_and_stops_nothing(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        pid, engine = rig.row("long").pid, rig.app.deck.link.pid
        await rig.press("q")
        await rig.until(lambda: rig.app.return_value is not None)
        assert f"engine {engine} goes on, 2 tasks running" in str(rig.app.return_value)
        assert proc.stat(pid) is not None
        assert rig.deck.holder() == engine

    on_deck(body)


def test_a_killed_engine_comes_back_with_the_same_processes(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        pid, engine = rig.row("long").pid, rig.app.deck.link.pid
        os.kill(engine, signal.SIGKILL)
        await rig.until(lambda: rig.app.deck.link.live and rig.app.deck.link.pid != engine)
        await rig.until_state("long", "running")
        assert rig.row("long").pid == pid
        await rig.press("g", "H")
        await rig.until(lambda: rig.row("long").held, "the new engine takes what is asked")

    on_deck(body)


def test_the_filter_shows_only_what_fits_and_escape_shows_all(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("slash", *"state:failed", "enter")
        table = rig.app.screen.query_one(TaskTable)
        await rig.until(lambda: list(table.shown) == ["bad"], "only bad is shown")
        await rig.press("escape")
        await rig.until(lambda: len(table.shown) == 3, "all are shown")

    on_deck(body)


def test_the_log_of_the_task_under_the_cursor_is_shown(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await go_to(rig, "long")
        await rig.until_seen("this is long")
        await go_to(rig, "bad")
        await rig.until_seen("this is bad")

    on_deck(body)


def test_p_pauses_after_a_question_and_goes_on_without(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("P")
        await rig.until_seen("Pause the deck?")
        await rig.press("p")
        await rig.until(lambda: rig.app.deck.head and rig.app.deck.head.paused, "it is paused")
        await rig.press("P")
        await rig.until(lambda: rig.app.deck.head and not rig.app.deck.head.paused, "it goes on")

    on_deck(body)


def test_a_key_of_the_configuration_takes_the_place_of_the_usual_one(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "H")
        await rig.press("f7")
        await rig.until(lambda: rig.row("long").held, "f7 holds")

    on_deck(body, config=Config(keys={"hold": "f7"}))


def test_a_mistake_in_the_configuration_is_said_and_harms_nothing(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.until_seen("no such theme here")

    on_deck(body, config=Config(problems=("no such theme here",)))


def test_every_action_of_the_table_is_handled_somewhere() -> None:
    def named(action: Action) -> tuple[str, ...]:
        return (f"do_{action.id}", f'"{action.id}"', f"'{action.id}'")

    sources = "".join(path.read_text() for path in TUI.rglob("*.py") if path.name != "actions.py")
    assert [action.id for action in ACTIONS if not any(name in sources for name in named(action))] == []


@pytest.mark.parametrize("size", [*SIZES, (40, 10), (20, 5)])
def test_every_size_can_be_drawn(on_deck: OnDeck, size: tuple[int, int]) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("j", "k", "tab", "tab")
        assert rig.app.is_running

    on_deck(body, size=size)


def test_resizes_in_a_row_end_with_a_whole_picture(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        for width, height in ((200, 60), (30, 8), (80, 24), (151, 29), (120, 40)) * 4:
            await rig.pilot.resize_terminal(width, height)
        await rig.until_seen("long")
        assert "q leave" in rig.text()

    on_deck(body)


def test_names_that_look_like_markup_are_shown_as_they_are(on_deck: OnDeck) -> None:
    text = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "x"\ntags = ["[red]b[/]"]\ncommand = ["false"]\n'

    async def body(rig: ScreenRig) -> None:
        await rig.until_state("x", "failed")
        await rig.press("slash", *"[/] [red", "enter")
        await rig.until_seen("[/] [red")

    on_deck(body, text)


@pytest.mark.parametrize("keys", [("slash",), ("l",), ("l", "slash"), ("tab",), ("d",), ("question_mark",)])
def test_keys_of_screen_tmux_and_the_terminal_mean_nothing(on_deck: OnDeck, keys: tuple[str, ...]) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press(*keys)
        await rig.pilot.pause()
        assert not RESERVED & {binding.key for _, binding, *_ in rig.app.screen.active_bindings.values()}
        assert not RESERVED & rig.app.screen.active_bindings.keys()

    on_deck(body)


def test_a_click_on_a_line_of_the_help_does_what_it_says(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await go_to(rig, "bad")
        await rig.press("question_mark")
        await rig.until_seen("Mark, or unmark")
        lines = rig.text().splitlines()
        y = next(at for at, line in enumerate(lines) if "Mark, or unmark" in line)
        await rig.pilot.click(offset=(lines[y].index("Mark, or unmark"), y))
        await rig.until(lambda: rig.app.screen.query_one(TaskTable).marked, "a task is marked")
        assert rig.app.screen.query_one(TaskTable).marked == {"bad"}

    on_deck(body)
