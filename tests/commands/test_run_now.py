"""`gpudeck run --now` and `add --now`: a task that can be gone on from makes way, and comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudeck import Deck
from gpudeck.engine.core.events import AttemptEnded, StopRequested
from tests.commands.commands_rig import Commanded, Following
from tests.commands.run_rig import until_run
from tests.commands.test_run_sharing import on_double
from tests.e2e.decks import Gate, lives, until
from tests.fakes.nvml_double.box import Box

SWEEP = """
    [deck]
    name = "sweep"
    [[task]]
    name = "t-{i}"
    matrix.i = [1, 2, 3]
    command = "touch ckpt-{i}; echo t-{i} >>order; read _ <gate"
    resume_command = "echo again-{i} >>order; touch ckpt-{i}; read _ <gate"
    resume_when = "ckpt-{i}"
"""
URGENT = "echo {0} >>order; read _ <urgent"


class Sweep(Commanded):
    """On GPUs of the double; commands come to it."""

    box: Box
    tasks: Gate
    urgent: Gate

    def begin(self, gpus: int, text: str = SWEEP, *, running: int = 0) -> None:
        """Its first tasks run, so many or as many as there are GPUs."""
        self.box = Box(self.folder / "box.txt", gpus)
        on_double(self, self.box)
        self.write(text)
        self.tasks, self.urgent = self.gate(), self.gate("urgent")
        assert self.go().code == 0
        until(lambda: len(self.lines("order")) == (running or gpus))

    def run_now(self, name: str = "eval") -> Following:
        return self.follow("run", "--now", "--name", name, URGENT.format(name))

    def kill_engine_of_queue(self) -> None:
        holder = self.holder()
        (pid,) = [pid for pid in self.engines_alive() if holder is not None and pid != holder.pid]
        os.kill(pid, signal.SIGKILL)
        until(lambda: not lives(pid))

    def stops(self) -> list[tuple[str, str]]:
        """Who was stopped, and for whom."""
        return [(fact.task, fact.by) for fact in self.facts() if isinstance(fact, StopRequested)]

    def ends(self, task: str) -> list[tuple[str, str, bool]]:
        facts = [fact for fact in self.facts() if isinstance(fact, AttemptEnded) and fact.task == task]
        return [(fact.outcome.reason, fact.next, fact.charged) for fact in facts]


@pytest.fixture
def sweep(tmp_path: Path) -> Iterator[Sweep]:
    deck = Sweep(tmp_path)
    try:
        yield deck
    finally:
        deck.box.release()
        deck.close()


def test_a_command_takes_the_place_of_a_task_that_goes_on_from_its_checkpoint_afterwards(sweep: Sweep) -> None:
    sweep.begin(1)
    urgent = sweep.run_now()
    urgent.until("t-1 of deck sweep makes way for eval")
    until(lambda: sweep.lines("order") == ["t-1", "eval"])
    row = sweep.rows()["t-1"]
    assert (row["state"], row["reason"], row["retries_used"]) == ("queued", "preempted: eval took its place", 0)
    sweep.urgent.let()
    assert urgent.finish().code == 0
    until(lambda: sweep.lines("order") == ["t-1", "eval", "again-1"])
    sweep.tasks.let(3)
    assert sweep.command("wait").code == 0
    assert sweep.lines("order") == ["t-1", "eval", "again-1", "t-2", "t-3"]
    assert sweep.ends("t-1") == [("preempted", "queued", False), ("ok", "succeeded", True)]
    assert "t-1 makes way: eval takes its place" in sweep.text("logs/deck.log")
    assert "preempted: eval took its place" in sweep.text("logs/deck.log")


def test_of_several_the_one_with_the_newest_checkpoint_makes_way(sweep: Sweep) -> None:
    sweep.begin(2)
    os.utime(sweep.folder / "ckpt-2", (2**32, 2**32))
    urgent = sweep.run_now()
    urgent.until("t-2 of deck sweep makes way for eval")
    sweep.urgent.let()
    assert urgent.finish().code == 0


def test_a_task_without_a_checkpoint_is_let_alone_and_the_command_is_first_in_line(sweep: Sweep) -> None:
    sweep.begin(1, SWEEP.replace("touch ckpt-{i}; ", ""))
    earlier = sweep.follow("run", "--name", "earlier", "echo earlier >>order")
    earlier.until("earlier waits")
    urgent = sweep.follow("run", "--now", "--name", "eval", "echo eval >>order")
    urgent.until(
        "nothing that runs has a checkpoint to go on from (resume_command, resume_when): eval is first in line"
    )
    assert sweep.state("t-1") == "running"
    sweep.tasks.let()
    assert (urgent.finish().code, earlier.finish().code) == (0, 0)
    assert sweep.lines("order")[:3] == ["t-1", "eval", "earlier"]
    assert sweep.stops() == []


def test_nobody_is_stopped_where_a_gpu_is_free(sweep: Sweep) -> None:
    sweep.begin(2, SWEEP.replace("[1, 2, 3]", "[1]"), running=1)
    assert sweep.command("run", "--now", "echo fine").out == "fine\n"
    assert sweep.stops() == []


def test_two_commands_at_once_take_two_places_and_not_one_twice(sweep: Sweep) -> None:
    sweep.begin(3)
    urgent = [sweep.run_now(name) for name in ("e1", "e2")]
    until(lambda: {"e1", "e2"} <= set(sweep.lines("order")))
    assert len(sweep.stops()) == len({task for task, _ in sweep.stops()}) == 2
    sweep.urgent.let(2)
    assert [each.finish().code for each in urgent] == [0, 0]


def test_an_engine_that_is_killed_meanwhile_neither_forgets_nor_repeats_it(sweep: Sweep) -> None:
    slowly = "trap 'touch told; read _ <saved; exit 1' TERM; "
    sweep.begin(1, SWEEP.replace('command = "touch', f'command = "{slowly}touch', 1))
    saved = sweep.gate("saved")
    urgent = sweep.run_now()
    urgent.until("t-1 of deck sweep makes way for eval")
    until(lambda: (sweep.folder / "told").exists())
    sweep.kill_engine()
    assert sweep.go().code == 0
    saved.let()
    until(lambda: sweep.lines("order") == ["t-1", "eval"])
    assert sweep.state("t-1") == "queued"
    sweep.urgent.let()
    assert urgent.finish().code == 0
    until(lambda: sweep.lines("order") == ["t-1", "eval", "again-1"])
    assert sweep.stops() == [("t-1", "eval")]
    assert sweep.ends("t-1") == [("preempted", "queued", False)]


def test_a_command_whose_engine_dies_as_the_place_comes_free_asks_for_it_again(sweep: Sweep) -> None:
    slowly = "trap 'read _ <saved; exit 1' TERM; "
    sweep.begin(1, SWEEP.replace('command = "touch', f'command = "{slowly}touch', 1))
    saved = sweep.gate("saved")
    urgent = sweep.run_now()
    urgent.until("t-1 of deck sweep makes way for eval")
    urgent.signal(signal.SIGSTOP)
    sweep.kill_engine_of_queue()
    saved.let()
    until(lambda: sweep.lines("order") == ["t-1", "again-1"])
    urgent.signal(signal.SIGCONT)
    until(lambda: sweep.lines("order") == ["t-1", "again-1", "eval"])
    sweep.urgent.let()
    assert urgent.finish().code == 0
    assert sweep.stops() == [("t-1", "eval"), ("t-1", "eval")]


def test_where_the_command_is_cancelled_before_it_has_the_place_the_task_goes_on(sweep: Sweep) -> None:
    slowly = "trap 'read _ <saved; exit 1' TERM; "
    sweep.begin(1, SWEEP.replace('command = "touch', f'command = "{slowly}touch', 1))
    saved = sweep.gate("saved")
    urgent = sweep.follow("run", "--now", "--name", "eval", "echo eval >>order")
    urgent.until("t-1 of deck sweep makes way for eval")
    assert sweep.command("cancel", "--queue", "eval").code == 0
    saved.let()
    until(lambda: sweep.lines("order") == ["t-1", "again-1"])
    assert urgent.finish().code == 1


def test_nobody_is_stopped_for_what_another_has_let_come_free_and_that_is_said(sweep: Sweep) -> None:
    slowly = "trap 'read _ <saved; exit 1' TERM; "
    sweep.begin(1, SWEEP.replace('command = "touch', f'command = "{slowly}touch', 1))
    saved = sweep.gate("saved")
    first = sweep.run_now("e1")
    first.until("t-1 of deck sweep makes way for e1")
    assert sweep.command("cancel", "--queue", "e1").code == 0
    second = sweep.run_now("e2")
    second.until("enough comes free already, and nobody else is stopped: e2 is first in line")
    saved.let()
    sweep.urgent.let()
    assert (first.finish().code, second.finish().code) == (1, 0)
    assert sweep.stops() == [("t-1", "e1")]


def test_a_detached_command_says_who_makes_way_too(sweep: Sweep) -> None:
    sweep.begin(1)
    done = sweep.command("run", "--now", "-d", "--name", "eval", URGENT.format("eval"))
    assert (done.code, done.out) == (0, "eval\n")
    assert "t-1 of deck sweep makes way for eval" in done.err
    until_run(sweep, "eval", "running")
    sweep.urgent.let()
    until_run(sweep, "eval", "succeeded")


def test_a_command_that_is_added_to_the_queue_takes_a_place_too(sweep: Sweep) -> None:
    sweep.begin(1)
    done = sweep.command("add", "--queue", "--now", "--name", "eval", URGENT.format("eval"))
    assert (done.code, done.out) == (0, "eval\n")
    assert "t-1 of deck sweep makes way for eval" in done.err
    sweep.urgent.let()
    until_run(sweep, "eval", "succeeded")


def test_a_program_s_command_in_the_queue_takes_a_place_too(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep.begin(1)
    for name, value in sweep.env.items():
        monkeypatch.setenv(name, value)
    told: list[str] = []
    queue = Deck(queue=True, warn=told.append)
    assert queue.add(URGENT.format("eval"), name="eval", cwd=sweep.folder, now=True) == "eval"
    assert [line.partition(":")[0] for line in told] == ["t-1 of deck sweep makes way for eval"]
    sweep.urgent.let()
    assert [row.state for row in queue.wait("eval", timeout_s=60)] == ["succeeded"]


def test_now_and_no_next_contradict_each_other(deck: Commanded) -> None:
    done = deck.command("run", "--now", "--no-next", "true")
    assert (done.code, "--no-next" in done.err) == (2, True)


def test_in_its_own_deck_nothing_makes_way_that_would_have_the_place_back_at_once(deck: Commanded) -> None:
    deck.write(SWEEP.replace('name = "sweep"', 'gpus = "sim:1"').replace("matrix", "priority = 2000\n    matrix"))
    gate = deck.gate()
    assert deck.go().code == 0
    until(lambda: deck.lines("order") == ["t-1"])
    done = deck.command("add", "--now", "--name", "eval", "--", "true")
    assert "as urgent, and back at once, would be t-1: eval is first in line" in done.err
    assert deck.state("t-1") == "running"
    gate.let(3)
    assert deck.command("wait").code == 0


def test_where_too_few_could_make_way_nobody_does_and_that_is_said(deck: Commanded) -> None:
    several = SWEEP.replace('name = "sweep"', 'gpus = "sim:2"').replace("[1, 2, 3]", "[1]")
    deck.write(several + "\n[[task]]\nname = 'other'\ncommand = 'read _ <gate'\n")
    gate = deck.gate()
    assert deck.go().code == 0
    until(lambda: deck.lines("order") == ["t-1"] and deck.state("other") == "running")
    done = deck.command("add", "--now", "--name", "eval", "-n", "2", "--", "true")
    assert "what runs and has a checkpoint to go on from is on too few GPUs: eval is first in line" in done.err
    assert deck.state("t-1") == "running"
    gate.let(2)
    assert deck.command("wait").code == 0


def test_nothing_makes_way_for_a_task_that_waits_for_another(deck: Commanded) -> None:
    deck.write(SWEEP.replace('name = "sweep"', 'gpus = "sim:1"'))
    gate = deck.gate()
    assert deck.go().code == 0
    until(lambda: deck.lines("order") == ["t-1"])
    done = deck.command("add", "--now", "--name", "eval", "--needs", "t-3", "--", "true")
    assert "eval is first in line, but waits for t-3" in done.err
    gate.let(3)
    assert deck.command("wait").code == 0
    assert sorted(deck.lines("order")) == ["t-1", "t-2", "t-3"]


def test_nobody_is_stopped_for_a_cpu_slot_and_that_is_said(deck: Commanded) -> None:
    deck.write(SWEEP.replace('name = "sweep"', "cpu_slots = 1\n[defaults]\ngpus = 0"))
    gate = deck.gate()
    assert deck.go().code == 0
    until(lambda: deck.lines("order") == ["t-1"])
    done = deck.command("add", "--now", "--name", "eval", "--", "true")
    assert "eval is first in line, but 1 of 1 CPU slots are taken" in done.err
    assert deck.state("t-1") == "running"
    gate.let(3)
    assert deck.command("wait").code == 0
