"""A name, a profile and a file may be called so that they mean one state: it is the first one's, and told to others."""

from __future__ import annotations

import json

import pytest

from tests.e2e.decks import Deck

ONE = """
[deck]
gpus = "sim:1"
[profile.x.vars]
word = "profile"
[vars]
word = "file"
[[task]]
name = "train"
command = "echo {word} >>ran"
"""
WAYS = {
    "a name": ("tasks.toml", "--name", "x"),
    "a profile": ("tasks.toml", "--profile", "x"),
    "a file": ("tasks@x.toml",),
}


@pytest.fixture(name="deck")
def _deck(deck: Deck) -> Deck:
    deck.write(ONE)
    deck.write(ONE, "tasks@x.toml")
    return deck


@pytest.mark.parametrize(("first", "second"), [("a name", "a profile"), ("a profile", "a file"), ("a file", "a name")])
def test_a_state_of_another_is_refused_with_a_line_that_says_whose_it_is(deck: Deck, first: str, second: str) -> None:
    ours, theirs = WAYS[first], WAYS[second]
    assert deck.run(*ours[1:], file=ours[0]).code == 0
    for words in (["--headless", *theirs], ["plan", *theirs], ["start", *theirs], ["ls", "-f", *theirs]):
        ran = deck.command(*words)
        assert (ran.code, ran.out) == (2, ""), words
        assert ran.err.count("\n") == 1
        assert f"tasks@x, which is that of `{' '.join(ours)}`" in ran.err
    assert len(deck.lines("ran")) == 1
    assert deck.run(*ours[1:], file=ours[0]).code == 0


def test_so_it_is_while_the_others_engine_runs(deck: Deck) -> None:
    text = ONE.replace("echo", "read _ <gate; echo")
    deck.write(text)
    gate = deck.gate()
    first = deck.start("--name", "x")
    first.started("train")
    for words in (["start", "--profile", "x"], ["status", "--profile", "x"], ["stop", "-f", "tasks@x.toml"]):
        assert deck.command(*words).code == 2
    gate.let()
    assert first.finish().code == 0


def test_a_state_that_does_not_say_whose_it_is_is_its_next_ones(deck: Deck) -> None:
    assert deck.run("--name", "x").code == 0
    noted = deck.folder / ".gpudeck" / "tasks@x" / "home"
    before = json.loads(noted.read_text())
    del before["owner"]
    noted.write_text(json.dumps(before))
    assert deck.run("--profile", "x").code == 0
    assert deck.run("--name", "x").code == 2


def test_a_file_that_is_renamed_within_its_stem_keeps_its_state(deck: Deck) -> None:
    assert deck.run().code == 0
    (deck.folder / "tasks.toml").rename(deck.folder / "tasks.gpudeck")
    assert deck.run(file="tasks.gpudeck").states == {"train": "cached"}


def test_two_folders_with_one_state_dir_do_not_share_a_state(
    deck: Deck, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = ONE.replace("[deck]", f'[deck]\nstate_dir = "{tmp_path_factory.mktemp("state")}"')
    deck.write(shared)
    other = Deck(deck.folder / "below", deck.env)
    other.write(shared)
    assert deck.run().code == 0
    ran = other.run()
    assert ran.code == 2
    assert f"which is that of `tasks.toml` in {deck.folder}" in ran.err
    deck.move()
    assert deck.run().states == {"train": "cached"}
