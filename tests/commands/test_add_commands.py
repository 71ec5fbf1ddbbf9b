"""`gpudeck add`: into the task file, and into the queue of the engine that runs it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.commands.commands_rig import GATED, Commanded
from tests.e2e.decks import lives, until
from tests.inside.commands import load
from tests.rigs.desk import Desk, at_desk, typed_in

FILE = """\
# what this is about
[deck]
gpus = "sim:2"   # none of ours
[[task]]
name = "train-{rate}"
command = "echo {rate} >> ran"
matrix.rate = [0.50, 1e-4]
"""


async def live(desk: Desk) -> None:
    """A deck of three tasks on two GPUs, two of which run."""
    await desk.start()
    await desk.until_state("wait-2", "running")


@at_desk(GATED)
async def test_under_an_engine_whose_task_file_is_gone_nothing_is_added(desk: Desk) -> None:
    await live(desk)
    (desk.folder / "tasks.toml").unlink()
    done = await desk.command("add", "--", "true")
    assert (done.code, done.err.endswith("tasks.toml: no such file\n")) == (2, True)


def test_without_an_engine_the_file_is_written_and_it_is_said_what_starts_it(deck: Commanded) -> None:
    deck.write(FILE)
    done = deck.command("add", "--", "echo", "a b", "c")
    assert (done.code, done.out) == (0, "echo\n")
    assert "no engine runs the deck: `gpudeck` or `gpudeck add --start` starts one" in done.err
    assert deck.text("tasks.toml") == FILE + '\n[[task]]\nname = "echo"\ncommand = ["echo", "a b", "c"]\n'
    assert not (deck.folder / ".gpudeck").exists()


def test_a_live_engine_takes_it_up(deck: Commanded) -> None:
    deck.go_gated()
    done = deck.command("add", "-n", "0", "echo new >> ran")
    assert (done.code, done.out) == (0, "echo\n")
    assert f"engine {deck.engine_pid()} has taken it up" in done.err
    deck.until_state("echo", "succeeded")
    assert deck.lines("ran") == ["new"]


def test_a_headless_engine_takes_it_up_although_it_follows_no_edits(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start("--only", "wait-1")
    engine.started("wait-1")
    assert deck.command("add", "-n", "0", "echo new >> ran").code == 0
    engine.ended("echo")
    gate.let()
    assert engine.finish().states == {"wait-1": "succeeded", "echo": "succeeded"}


@at_desk(GATED)
async def test_other_edits_of_the_file_are_not_applied_with_it(desk: Desk) -> None:
    await live(desk)
    desk.write(GATED.replace("[1, 2, 3]", "[1, 2, 4]"))
    assert (await desk.command("add", "-n", "0", "true")).code == 0
    assert set(await desk.rows()) == {"wait-1", "wait-2", "wait-3", "true"}


def test_the_keys_of_a_task_are_options(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(FILE)
    words = ("-n", "2", "--needs", "train-*", "--timeout", "2h", "--env", "A=1=2", "--round", "3", "--priority", "-1")
    assert typed_in(tmp_path, "add", *words, "--name", "mine", "--", "python", "x.py", "-n", "5").out == "mine\n"
    spec = next(spec for spec in load(str(tmp_path / "tasks.toml"), environ={}).tasks if spec.name == "mine")
    assert spec.work.command == ("python", "x.py", "-n", "5")
    assert (spec.resources.gpus, spec.needs, spec.policy.timeout_s) == (2, ("train-*",), 7200.0)
    assert (spec.work.env, spec.round, spec.priority) == ((("A", "1=2"),), 3, -1)


def test_a_task_like_another_with_another_value(tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(FILE)
    assert typed_in(tmp_path, "add", "--like", "train-0.50", "--set", "rate=0.7").out == "train-0.7\n"
    assert "# none of ours" in path.read_text()
    commands = [spec.work.command for spec in load(str(path), environ={}).tasks]
    assert commands == [f"echo {rate} >> ran" for rate in ("0.50", "1e-4", "0.7")]


def test_after_a_run_has_ended_start_runs_what_was_added_and_tells_what_else_is_new(deck: Commanded) -> None:
    deck.write('[deck]\ngpus = "none"\n[[task]]\nname = "old"\ncommand = "true"\n')
    assert deck.command("--headless").code == 0
    assert deck.command("add", "--name", "early", "--", "true").code == 0
    done = deck.command("add", "-s", "--name", "late", "--", "true")
    assert "the file has 1 other new task: `gpudeck start` takes up all of it" in done.err
    deck.until_state("late", "succeeded")
    assert deck.rows()["early"]["state"] == "waiting"
    assert "`gpudeck start` begins the next one" in deck.command("explain", "early").out


def test_a_command_runs_where_it_was_typed(deck: Commanded) -> None:
    deck.write(FILE)
    (deck.folder / "sub").mkdir()
    assert deck.shell("cd sub && gpudeck add -s -- touch made").code == 0
    until((deck.folder / "sub" / "made").exists)
    assert 'cwd = "sub"' in deck.text("tasks.toml")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "gpudeck add -- python train.py"),
        (("--like", "train-0.50", "--", "true"), "either a command or --like TASK"),
        (("--like", "trian-0.50"), "there is no such task: did you mean train-0.50?"),
        (("-n", "x", "true"), 'gpus must be a whole number or "all"'),
        (("--needs", "nobody", "true"), "nobody"),
        (("--set", "nonsense=1", "true"), "--set nonsense"),
        (("-n", "3", "true"), 'task "true": gpus = 3, but the deck has only 2'),
        (("--set", "launch=srun", "true"), "launch"),
    ],
)
def test_a_mistake_leaves_the_file_as_it_is(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(FILE)
    done = typed_in(tmp_path, "add", *words)
    assert (done.code, said in done.err, done.out) == (2, True, "")
    assert path.read_text() == FILE


def test_a_file_of_another_box_can_be_added_to(tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(FILE + '[[task]]\nname = "large"\ncommand = "true"\ngpus = 4\n')
    assert typed_in(tmp_path, "add", "true").code == 0
    assert path.read_text().count("[[task]]") == 3


@at_desk(GATED)
async def test_what_the_engine_does_not_take_is_taken_out_again(desk: Desk) -> None:
    await live(desk)
    before = desk.text("tasks.toml")
    done = await desk.command("add", "-n", "3", "true")
    assert (done.code, "gpus = 3, but the deck has only 2" in done.err) == (2, True)
    assert desk.text("tasks.toml") == before


@at_desk(GATED)
async def test_work_that_waits_under_another_name_is_not_added_beside_an_edit_that_waits(desk: Desk) -> None:
    await live(desk)
    edited = desk.text("tasks.toml").replace("[1, 2, 3]", "[1, 2]")
    desk.write(edited)
    done = await desk.command("add", "--name", "other", "echo begin 3; read _ <gate; echo end 3")
    assert (done.code, "other is the work of wait-3" in done.err, "`gpudeck apply` first" in done.err) == (
        2,
        True,
        True,
    )
    assert desk.text("tasks.toml") == edited


def test_what_was_added_is_still_queued_after_kill_9(deck: Commanded) -> None:
    deck.go_gated()
    assert deck.command("add", "echo new >> ran").code == 0
    pid = deck.engine_pid()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not lives(pid))
    assert deck.state("echo") == "queued"
