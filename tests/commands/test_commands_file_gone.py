"""A task file that is gone takes no engine out of reach, under whatever name that keeps its state."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.commands_rig import Commanded, typed
from tests.e2e.decks import until
from tests.rigs.desk import Desk, at_desk, typed_in

WAITS = """
    [deck]
    gpus = "sim:1"
    [profile.night]
    [[task]]
    name = "long"
    command = "read _ <gate"
"""


@pytest.mark.parametrize(
    "state", [(), ("--profile", "night"), ("--name", "second"), ("--profile", "night", "--name", "second")]
)
@pytest.mark.parametrize("named", [(), ("-f", "tasks.toml")])
@at_desk(WAITS)
async def test_an_engine_is_looked_at_acted_on_and_ended_without_its_file(
    desk: Desk, state: tuple[str, ...], named: tuple[str, ...]
) -> None:
    assert (await desk.command("start", *state)).code == 0
    (desk.folder / "tasks.toml").unlink()
    looked = await desk.command("ls", *named, *state)
    assert (looked.code, looked.out.count("long")) == (0, 1), looked.err
    assert "detached" in (await desk.command("status", *named, *state)).out
    assert "is paused" in (await desk.command("pause", *named, *state)).out
    stopped = await desk.command("stop", "--tasks", *named, *state)
    assert (stopped.code, "has ended" in stopped.out) == (0, True), stopped.err
    assert not desk.runs


@pytest.mark.parametrize(
    ("left", "state"),
    [(None, ()), (None, ("--profile", "night")), ("[[task]\n", ()), (WAITS.replace("long", "other"), ())],
)
def test_tasks_without_an_engine_are_ended_whatever_has_become_of_the_file(
    deck: Commanded, left: str | None, state: tuple[str, ...]
) -> None:
    left_alone(deck, left, *state)
    done = deck.command("stop", "--tasks", *state)
    assert (done.code, done.out.splitlines()[0]) == (0, "stopping 1 task …"), done.err
    assert "has ended: no task runs; the next start takes up what was stopped" in done.out
    assert (deck.living(), list((deck.folder / "logs").glob("other*"))) == ([], [])


@pytest.mark.parametrize("left", [None, "[[task]\n"])
def test_what_needs_the_file_says_how_tasks_are_ended_without_it(deck: Commanded, left: str | None) -> None:
    left_alone(deck, left)
    for words in ("start", "--headless", "status"):
        assert "`gpudeck stop --tasks` ends" in deck.command(*words.split()).err
    assert deck.command("stop", "--tasks").code == 0
    assert "stop --tasks" not in deck.command("cancel", "long").err


@pytest.mark.parametrize("left", [None, "[[task]\n"])
def test_a_task_that_runs_is_cancelled_whatever_has_become_of_the_file(deck: Commanded, left: str | None) -> None:
    left_alone(deck, left)
    assert deck.command("cancel", "long").out == "cancel: long (attempt 1 is being stopped)\n"
    until(lambda: not deck.living())


def left_alone(deck: Commanded, left: str | None, *state: str) -> None:
    """A task runs, no engine does, and the task file holds what is *left*: None: it is gone."""
    deck.gate()
    deck.write(WAITS)
    assert deck.command("start", *state).code == 0
    until(lambda: "running" in deck.command("ls", *state).out)
    assert deck.command("stop", *state).code == 0
    (deck.folder / "tasks.toml").unlink()
    if left is not None:
        deck.write(left)


@pytest.mark.parametrize("words", [("--profile", "night"), ("tasks.toml",)])
def test_the_screen_of_a_running_deck_is_opened_without_its_file(deck: Commanded, words: tuple[str, ...]) -> None:
    deck.gate()
    deck.write(WAITS)
    assert deck.command("start", *[word for word in words if word != "tasks.toml"]).code == 0
    (deck.folder / "tasks.toml").unlink()
    with typed(deck, *words) as terminal:
        terminal.until("long")


@pytest.mark.parametrize(
    ("words", "said"),
    [(("ls",), "no tasks.toml here or above"), (("ls", "-f", "tasks.toml"), "tasks.toml: no such file")],
)
def test_a_file_that_is_gone_and_never_ran_is_said(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    assert said in typed_in(tmp_path, *words).err
