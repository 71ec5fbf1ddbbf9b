"""An added task that is wanted now, in a deck with one simulated GPU: true engines, processes, signals, kills."""

from __future__ import annotations

from pathlib import Path

from gpudeck.engine.core.events import StopRequested
from tests.e2e.decks import deck_in, until

TRAIN = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "train"
    command = "trap 'touch ckpt' USR1; trap 'read _ <saved; exit 1' TERM; touch ckpt; echo begun >>order; while :; do read _ <gate; done"
    resume_command = "echo resumed >>order; read _ <gate"
    resume_when = "ckpt"
    warn_signal = "USR1"
    warn_before = "100ms"
    [[task]]
    name = "later"
    command = "echo later >>order"
"""  # noqa: E501


def test_a_task_makes_way_for_one_that_is_added_and_goes_on_once_although_the_engine_is_killed(tmp_path: Path) -> None:
    with deck_in(tmp_path) as deck:
        deck.write(TRAIN)
        gate, saved = deck.gate(), deck.gate("saved")
        first = deck.start()
        until(lambda: deck.lines("order") == ["begun"])
        added = deck.command("add", "--now", "--name", "eval", "--", "sh", "-c", "echo eval >>order")
        assert (added.code, added.out) == (0, "eval\n")
        assert "train makes way for eval" in added.err
        first.note("train makes way: eval takes its place")
        for look in ("ls", "explain"):
            assert "makes way: eval takes its place" in deck.command(look, "train").out
        first.kill()
        second = deck.start()
        saved.let()
        end = second.ended("train")
        assert (end["outcome"], end["reason"]) == ("interrupted", "preempted: eval took its place")
        until(lambda: deck.lines("order") == ["begun", "eval", "resumed"])
        gate.let()
        assert second.finish().code == 0
        assert deck.lines("order") == ["begun", "eval", "resumed", "later"]
        assert [fact.task for fact in deck.facts() if isinstance(fact, StopRequested)] == ["train"]
        assert deck.record("train")["end"]["reason"] == "preempted: eval took its place"
