"""A task file that is gone takes no engine out of reach, under whatever name that keeps its state."""

from __future__ import annotations

import pytest

from tests.commands.commands_rig import Commanded, typed

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
def test_an_engine_is_looked_at_acted_on_and_ended_without_its_file(
    deck: Commanded, state: tuple[str, ...], named: tuple[str, ...]
) -> None:
    deck.gate()
    deck.write(WAITS)
    assert deck.command("unpause", *state).code == 0
    (deck.folder / "tasks.toml").unlink()
    looked = deck.command("ls", *named, *state)
    assert (looked.code, looked.out.count("long")) == (0, 1), looked.err
    assert "detached" in deck.command("status", *named, *state).out
    assert "is paused" in deck.command("pause", *named, *state).out
    stopped = deck.command("stop", "--tasks", *named, *state)
    assert (stopped.code, "has ended" in stopped.out) == (0, True), stopped.err
    assert deck.engines_alive() == []


@pytest.mark.parametrize("state", [(), ("--profile", "night")])
@pytest.mark.parametrize("named", [(), ("tasks.toml",)])
@pytest.mark.parametrize(("screen", "shown"), [((), "long"), (("--plain",), "runs on when this ends")])
def test_a_running_deck_is_opened_without_its_file(
    deck: Commanded, screen: tuple[str, ...], shown: str, named: tuple[str, ...], state: tuple[str, ...]
) -> None:
    deck.gate()
    deck.write(WAITS)
    assert deck.command("unpause", *state).code == 0
    (deck.folder / "tasks.toml").unlink()
    with typed(deck, *screen, *named, *state) as terminal:
        terminal.until(shown)


def test_a_file_that_is_gone_and_never_ran_is_said(deck: Commanded) -> None:
    assert "no tasks.toml here or above" in deck.command("ls").err
    assert "tasks.toml: no such file" in deck.command("ls", "-f", "tasks.toml").err
