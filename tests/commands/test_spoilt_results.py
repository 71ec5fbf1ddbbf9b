"""What a task needs is a result when it starts, and not half of one that another attempt has left since."""

from __future__ import annotations

import pytest

from tests.commands.commands_rig import Commanded

HEAD = '[deck]\ngpus = "sim:1"\n'
MAKE = '[[task]]\nname = "make"\ncommand = "echo made >>ran; echo good >out"\noutputs = ["out"]\n'
SPOIL = '[[task]]\nname = "{}"\ncommand = "echo half >out; exit 1"\noutputs = ["out"]\n'
USE = '[[task]]\nname = "use"\nneeds = ["make"]\ncommand = "cat out >>ran; test -e ok"\n'


def spoilt(deck: Commanded, by: str, then: str = MAKE) -> None:
    """`make` has succeeded; then another attempt has left half of its output; and the file is *then*."""
    deck.write(HEAD + then)
    deck.run()
    if by == "somebody who removed it":
        (deck.folder / "out").unlink()
    elif by == "another file":
        deck.write(HEAD + SPOIL.format("other"), "other.toml")
        assert deck.run("--no-skip-existing", file="other.toml").code == 1
    else:
        deck.write(HEAD + SPOIL.format("renamed"))
        assert deck.run().code == 1
    deck.write(HEAD + MAKE + USE)
    (deck.folder / "ok").touch()


@pytest.mark.parametrize("words", [("start",), ("apply", "-y")], ids=" ".join)
@pytest.mark.parametrize("by", ["the same task as it was meanwhile", "another file", "somebody who removed it"])
def test_what_a_new_task_needs_is_made_again_first(deck: Commanded, words: tuple[str, ...], by: str) -> None:
    spoilt(deck, by)
    assert deck.command(*words).code == 0
    assert deck.command("wait").code == 0
    assert deck.lines("ran") == ["made", "made", "good"]


@pytest.mark.parametrize("by", ["another file", "somebody who removed it"])
def test_a_retry_makes_what_its_task_needs_again(deck: Commanded, by: str) -> None:
    spoilt(deck, by, MAKE + USE)
    assert deck.lines("ran") == ["made", "good"]
    assert deck.command("retry", "use").code == 0
    assert deck.command("wait").code == 0
    assert deck.lines("ran") == ["made", "good", "made", "good"]


def test_an_attempt_that_did_not_touch_it_spoils_nothing(deck: Commanded) -> None:
    deck.write(HEAD + MAKE)
    assert deck.run().code == 0
    deck.write(HEAD + SPOIL.format("other").replace("echo half >out; ", ""), "other.toml")
    assert deck.run("--no-skip-existing", file="other.toml").code == 1
    deck.write(HEAD + MAKE + USE.replace("; test -e ok", ""))
    assert deck.command("apply", "-y").code == 0
    assert deck.command("wait").code == 0
    assert deck.lines("ran") == ["made", "good"]
