"""A sweep whose lost runs are stopped early: as it is written, stopped, looked at and taken up again."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from gpudeck.engine.core.events import AttemptEnded, PointReached, StopRequested
from tests.e2e.decks import Deck, Engine, until

TRAIN = """
import os, pathlib, signal, sys

loss, checkpoint = float(sys.argv[1]), pathlib.Path(f"epoch.{sys.argv[1]}")
first = int(checkpoint.read_text()) + 1 if "--resume" in sys.argv else 1

def asked_to_end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the next engine asks again
    pathlib.Path("asked").touch()
    os.read(0, 1)
    sys.exit(0)

if os.path.exists("slow-to-end"):
    signal.signal(signal.SIGTERM, asked_to_end)
for epoch in range(first, 5):
    os.read(0, 1)
    print(f"epoch {epoch}/4 val_loss={loss / epoch}", flush=True)
    checkpoint.write_text(str(epoch))
"""
DECK = """
[deck]
gpus = "sim:3"

[[task]]
name = "train-{loss}"
matrix.loss = [1, 2, 9]
command = "exec {python} train.py {loss} <gate.{loss}"
resume_command = "exec {python} train.py {loss} --resume <gate.{loss}"
resume_when = "epoch.{loss}"
metrics.val_loss = { regex = 'val_loss=(\\S+)', best = "min" }
prune = { metric = "val_loss:min", rule = "median", at = [0.25], keep = 2 }

[[task]]
name = "gather"
after = ["train-*"]
gpus = 0
command = "echo gathered"
"""


@pytest.fixture
def sweep(deck: Deck) -> Deck:
    deck.tune("engine.attempts.following", PERIOD_S=0.05, FIRST_S=0.05)
    deck.tune("engine.logs.helper", FIRST_WAIT_S=0.1)
    deck.write(DECK)
    Path(deck.folder / "train.py").write_text(TRAIN)
    for loss in (1, 2, 9):
        deck.gate(f"gate.{loss}")
    return deck


def reached(deck: Deck, task: str) -> None:
    until(lambda: any(isinstance(fact, PointReached) and fact.task == task for fact in deck.facts()))


def until_judged(deck: Deck) -> Engine:
    """The good ones have come to the first point, then the bad one."""
    engine = deck.start("--junit", "junit.xml")
    engine.started("train-1", "train-2", "train-9")
    for number, task in enumerate(("train-1", "train-2", "train-9")):
        deck.gates[number].let()
        reached(deck, task)
    return engine


def test_what_is_lost_is_stopped_told_and_taken_up_again_by_hand(sweep: Deck) -> None:
    engine = until_judged(sweep)
    why = "val_loss 9 at 25 %: the median of 2 peers is 1.5"
    assert engine.ended("train-9")["reason"] == f"pruned by {why}"
    for gate in sweep.gates[:2]:
        gate.let(3)
    ran = engine.finish()
    states = {"train-1": "succeeded", "train-2": "succeeded", "train-9": "pruned", "gather": "succeeded"}
    assert (ran.code, ran.states) == (0, states)
    assert "train-9 is lost and is being stopped" in ran.notes
    assert f'<skipped message="pruned by {why}"/>' in sweep.text("junit.xml")
    assert sweep.record("train-9")["end"]["kind"] == "pruned"
    listed = sweep.command("ls", "state:pruned", "--json")
    assert [row["name"] for row in json.loads(listed.out)] == ["train-9"]
    assert sweep.command("explain", "train-9").out.startswith(f"train-9 was pruned by {why}: `gpudeck retry train-9`")
    assert "1 pruned" in sweep.command("status").out
    again = sweep.run()
    assert (again.code, again.started, again.states["train-9"]) == (0, [], "pruned")
    for gate in sweep.gates:
        gate.let(3)
    assert sweep.command("retry", "train-9").code == 0
    assert sweep.command("wait", "train-9").code == 0
    rows = json.loads(sweep.command("ls", "--json").out)
    assert {row["name"]: row["state"] for row in rows}["train-9"] == "succeeded"
    assert sweep.text("logs/train-9/attempt-2.log").startswith("epoch 2/4")


def test_an_engine_that_is_killed_between_verdict_and_end_has_stopped_it_all_the_same(sweep: Deck) -> None:
    Path(sweep.folder / "slow-to-end").touch()
    engine = until_judged(sweep)
    until((sweep.folder / "asked").exists)
    engine.signal(signal.SIGKILL)
    engine.finish()
    engine = sweep.start()
    engine.event("deck_opened")
    sweep.gates[2].let()
    assert engine.ended("train-9")["next"] == "pruned"
    for gate in sweep.gates[:2]:
        gate.let(3)
    ran = engine.finish()
    assert (ran.code, ran.states["train-9"]) == (0, "pruned")
    facts = sweep.facts()
    assert [fact.why for fact in facts if isinstance(fact, StopRequested)] == ["pruned"]
    assert sum(isinstance(fact, AttemptEnded) and fact.next == "pruned" for fact in facts) == 1
    assert sum(isinstance(fact, PointReached) and fact.task == "train-9" for fact in facts) == 1


LATE = """
[deck]
gpus = "sim:1"

[[task]]
name = "train-{kind}"
matrix.case = [
  { kind = "good", first = 1.5, last = 0.5 },
  { kind = "fair", first = 2.5, last = 0.9 },
  { kind = "late", first = 3.5, last = 0.1 },
  { kind = "bad", first = 4.5, last = 4.5 },
]
command = """
LATE += "'''echo epoch 1/4 loss={first}; echo epoch 2/4 loss={first}; echo epoch 4/4 loss={last}'''\n"
LATE += "metrics.loss = { regex = 'loss=(\\S+)' }\n"


def test_a_rule_is_replayed_over_what_has_run_before_it_may_end_anything(deck: Deck) -> None:
    deck.write(LATE)
    assert deck.run().code == 0
    refused = deck.command("plan", "--prune")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert 'write prune = { metric = "loss:min" } into the task file' in refused.err
    deck.write(LATE + 'prune = { metric = "loss:min", at = [0.5], keep = 2 }\n')
    told = deck.command("plan", "--prune").out
    assert re.search(r"^train-late +50 % .*loss 3.5 at 50 %: the median of 2 peers is 2$", told, re.MULTILINE)
    assert "2 of 4 tasks of train-{kind} would have been pruned" in told
    assert "train-late (loss 0.1), would have been LOST" in told
    assert deck.run().started == []


def test_a_run_that_went_on_from_its_checkpoint_is_replayed_with_what_it_reached_before(deck: Deck) -> None:
    begun = "test {kind} != late || { echo epoch 2/4 loss=0.05; touch late.pt; exit 1; }"
    resumes = "retries = 1\nbackoff = 0\nresume_command = 'echo epoch 4/4 loss=3'\nresume_when = 'late.pt'\n"
    rule = 'prune = { metric = "loss:min", at = [0.5], keep = 2 }\n'
    deck.write(LATE.replace("epoch 1/4 loss={first};", f"epoch 1/4 loss={{first}}; {begun};") + resumes + rule)
    assert deck.run().code == 0
    (told,) = json.loads(deck.command("plan", "--prune", "--json").out)
    assert (told["judged"], told["best"]) == (4, "train-late")


def test_what_ran_before_the_rule_stood_in_the_file_is_said_to_judge_nothing_to_come(deck: Deck) -> None:
    deck.write(LATE)
    deck.run()
    deck.write(LATE + 'prune = { metric = "loss:min", at = [0.5], keep = 2 }\n')
    assert "what runs from now on is not judged by 4 of them" in deck.command("plan", "--prune").out


def test_entries_of_which_nothing_can_be_judged_are_told_in_one_line(deck: Deck) -> None:
    rule = '[defaults]\nprune = { metric = "loss:min", at = [0.5], keep = 2 }\n'
    deck.write(rule + LATE + "\n[[task]]\nname = 'prepare'\ngpus = 0\ncommand = 'true'\n")
    deck.run()
    *_, last = deck.command("plan", "--prune").out.splitlines()
    assert last.startswith("not judged: prepare (")
    assert "of prepare would" not in deck.command("plan", "--prune").out


@pytest.mark.parametrize(
    ("printed", "suggested"),
    [
        ("::gpudeck lr=0.1 loss=2 val_acc=0.5", 'write prune = { metric = "val_acc:max" } into the task file'),
        ("epoch 1/4 ppl: 3.5", """metric = "ppl:min" } into the task file, and metrics.ppl = { regex"""),
        ("hello", "and no task has a metric that one could go by"),
    ],
)
def test_without_a_rule_one_is_suggested_by_a_metric_that_the_tasks_have(
    deck: Deck, printed: str, suggested: str
) -> None:
    deck.write(f"""
[deck]
gpus = "sim:1"

[[task]]
name = "train"
command = "echo {printed}"
""")
    deck.run()
    refused = deck.command("plan", "--prune")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert suggested in refused.err
