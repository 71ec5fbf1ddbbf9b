"""One file under several names and profiles: their outputs lie in one place, and a success of one counts for all."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.e2e.decks import Deck, until

HALF = """
    [deck]
    gpus = "sim:1"
    [profile.p.deck]
    halt = "never"
    [[task]]
    name = "train"
    command = "echo half >model.pt; exit {code}"
    outputs = ["model.pt"]
    [[task]]
    name = "eval"
    needs = ["train"]
    command = "cat model.pt"
"""
NAMES = {"none": (), "a name": ("--name", "b"), "a profile": ("--profile", "p")}


@pytest.mark.parametrize(("first", "second"), [("none", "a name"), ("a name", "none"), ("a name", "a profile")])
def test_what_a_failed_attempt_left_is_no_result_under_another_name(deck: Deck, first: str, second: str) -> None:
    deck.write(HALF.format(code=1))
    assert deck.run(*NAMES[first]).code == 1
    ran = deck.run(*NAMES[second])
    assert (ran.code, ran.states) == (1, {"train": "failed", "eval": "blocked"})
    assert "outputs of train do not count as done" in ran.notes


def test_a_success_under_another_name_is_not_repeated(deck: Deck) -> None:
    deck.write(HALF.format(code=0))
    assert deck.run("--name", "b").code == 0
    assert deck.run().states == {"train": "cached", "eval": "succeeded"}


@pytest.mark.parametrize(("before", "after"), [("tasks.toml", "sweep.toml"), ("sweep.toml", "tasks.toml")])
def test_what_a_failed_attempt_left_is_no_result_once_the_file_is_called_otherwise(
    deck: Deck, before: str, after: str
) -> None:
    deck.write(HALF.format(code=1), before)
    assert deck.run(file=before).code == 1
    (deck.folder / before).rename(deck.folder / after)
    assert deck.run(file=after).states == {"train": "failed", "eval": "blocked"}


@pytest.mark.parametrize("code", [0, 1])
def test_nor_is_it_one_of_another_file_that_did_other_work(deck: Deck, code: int) -> None:
    deck.write(HALF.format(code=code))
    assert deck.run().code == code
    deck.write(HALF.format(code=0).replace("half", "whole"), "other.toml")
    ran = deck.run(file="other.toml")
    assert (ran.states["train"], deck.text("model.pt")) == ("succeeded", "whole\n")
    assert "outputs of train do not count as done: tasks has run it" in ran.notes


def test_the_newest_attempt_that_can_have_written_an_output_decides(deck: Deck) -> None:
    deck.write(HALF.format(code=1))
    assert deck.run("--name", "a").code == 1
    deck.write(HALF.format(code=0))
    assert deck.run("--name", "b").states["train"] == "succeeded"
    assert deck.run().states["train"] == "cached"
    deck.write(HALF.format(code=1).replace("echo half >model.pt; ", ""))
    assert deck.run("--name", "c", "--no-skip-existing").code == 1
    deck.write(HALF.format(code=0))
    assert deck.run("--name", "d").states["train"] == "cached"


def test_nor_is_it_one_where_the_engine_was_killed_before_it_saw_the_failure(deck: Deck) -> None:
    deck.write(HALF.format(code=0))
    assert deck.run().code == 0
    deck.write(HALF.format(code=1).replace("half >model.pt; exit", "less >model.pt; read _ <gate; exit"))
    gate = deck.gate()
    other = deck.start("--name", "b", "--no-skip-existing")
    other.started("train")
    until(lambda: deck.text("model.pt") == "less\n")
    other.kill()
    gate.let()
    until(lambda: not deck.living())
    deck.write(HALF.format(code=0))
    ran = deck.run()
    assert ran.states == {"train": "succeeded", "eval": "succeeded"}
    assert "tasks@b runs it, or nobody knows its end" in ran.notes
    assert deck.run().states == {"train": "cached", "eval": "cached"}


def test_what_another_name_is_writing_now_is_no_result(deck: Deck) -> None:
    deck.write(HALF.format(code=0))
    assert deck.run().code == 0
    deck.write(HALF.format(code=0).replace("half >model.pt", "less >model.pt; read _ <gate"))
    gate = deck.gate()
    other = deck.start("--name", "b", "--no-skip-existing")
    other.started("train")
    until(lambda: deck.text("model.pt") == "less\n")
    deck.write(HALF.format(code=0))
    assert deck.run().states["train"] == "succeeded"
    gate.let()
    other.finish()


def test_an_output_is_the_same_through_a_link(deck: Deck) -> None:
    deck.write(HALF.format(code=1).replace("model.pt", "real/model.pt"))
    (deck.folder / "real").mkdir()
    (deck.folder / "link").symlink_to("real")
    assert deck.run("--name", "b").code == 1
    shutil.rmtree(deck.folder / "logs")
    deck.write(HALF.format(code=1).replace("model.pt", "link/model.pt"))
    assert deck.run().states["train"] == "failed"


def test_a_half_result_moves_along_with_its_folder(deck: Deck) -> None:
    deck.write(HALF.format(code=1))
    assert deck.run("--name", "b").code == 1
    shutil.rmtree(deck.folder / "logs")
    deck.move()
    assert deck.run().states["train"] == "failed"


@pytest.mark.parametrize("words", [("--log-dir", "elsewhere"), ("--profile", "away")])
def test_nor_is_it_one_where_that_attempts_logs_lie_elsewhere(deck: Deck, words: tuple[str, ...]) -> None:
    away = '[profile.away.deck]\nlog_dir = "other"\n[profile.p.deck]'
    deck.write(HALF.format(code=1).replace("[profile.p.deck]", away))
    assert deck.run(*words).code == 1
    ran = deck.run("--name", "b")
    assert ran.states == {"train": "failed", "eval": "blocked"}
    assert "outputs of train do not count as done" in ran.notes


def test_nor_is_it_one_where_that_attempts_logs_have_been_removed(deck: Deck) -> None:
    deck.write(HALF.format(code=1))
    assert deck.run("--name", "b").code == 1
    shutil.rmtree(deck.folder / "logs")
    assert deck.run().states == {"train": "failed", "eval": "blocked"}


def test_what_another_name_leaves_of_a_result_later_makes_it_run_again(deck: Deck) -> None:
    deck.write(HALF.format(code=0))
    assert deck.run().code == 0
    deck.write(HALF.format(code=1))
    assert deck.run("--name", "b", "--no-skip-existing").code == 1
    deck.write(HALF.format(code=0))
    assert deck.command("plan").out.splitlines()[1].startswith("train ")
    ran = deck.run()
    assert ran.states == {"train": "succeeded", "eval": "succeeded"}
    assert "outputs of train do not count as done: tasks@b has run it without success since" in ran.notes
    assert deck.run().states == {"train": "cached", "eval": "cached"}


def test_two_names_that_write_the_same_outputs_at_once_are_warned_of(deck: Deck) -> None:
    deck.write(HALF.format(code=0).replace("echo half", "read _ <gate; echo half").replace("sim:1", "sim:2"))
    gate = deck.gate()
    first = deck.start()
    first.started("train")
    told = deck.command("check", "--name", "b").out
    assert "runs what has the outputs of train: each writes over the other's" in told
    second = deck.start("--name", "b")
    second.started("train")
    gate.let(2)
    first.finish()
    assert "the deck tasks in " in second.finish().notes


def test_two_decks_with_other_outputs_are_warned_of_nothing(deck: Deck) -> None:
    deck.write(HALF.format(code=0).replace("echo half", "read _ <gate; echo half"))
    gate = deck.gate()
    first = deck.start()
    first.started("train")
    deck.write(HALF.format(code=0).replace("model.pt", "other.pt"))
    assert "each writes over" not in deck.run("--name", "b").notes
    gate.let()
    first.finish()


NAMED = """
    [deck]
    gpus = "none"
    [[task]]
    name = "{first}"
    gpus = 0
    command = "echo one"
    [[task]]
    name = "{second}"
    gpus = 0
    command = "echo two"
"""


@pytest.mark.parametrize("now", [("new", "b"), ("b", "a")], ids=["renamed", "names swapped"])
def test_a_task_shows_the_log_of_the_work_that_was_done_under_another_name(deck: Deck, now: tuple[str, str]) -> None:
    deck.write(NAMED.format(first="a", second="b"))
    deck.run()
    deck.write(NAMED.format(first=now[0], second=now[1]))
    assert deck.run().states == dict.fromkeys(now, "cached")
    shown = deck.command("logs", now[0])
    assert (shown.out, f"{now[0]} was done as a" in shown.err) == ("one\n", True)
    (told,) = json.loads(deck.command("show", now[0], "--json").out)["attempts"]
    assert (told["done_as"], told["log"]) == ("a", str(deck.folder / "logs" / "a" / "attempt-1.log"))


def test_the_log_of_a_task_that_left_the_file_is_named(deck: Deck) -> None:
    deck.write(NAMED.format(first="a", second="b"))
    deck.run()
    deck.write(NAMED.format(first="new", second="b"))
    asked = deck.command("logs", "a")
    assert (asked.code, str(deck.folder / "logs" / "a" / "attempt-1.log") in asked.err) == (2, True)


def test_before_the_next_start_it_is_told_under_which_name_the_work_was_done(deck: Deck) -> None:
    deck.write(NAMED.format(first="a", second="b"))
    deck.run()
    deck.write(NAMED.format(first="new", second="b"))
    assert "before: done as a" in deck.command("ls", "new").out
    assert deck.command("logs", "new").out == "one\n"
