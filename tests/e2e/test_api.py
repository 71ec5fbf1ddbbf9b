"""Decks from Python: what `from gpudeck import Deck` gives, over true engines."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudeck import AsyncDeck, Deck, DeckError, JobFailedError, NewTask
from tests.e2e.decks import Deck as Running
from tests.e2e.decks import until

PAGE = Path(__file__).parents[2] / "docs" / "programs.md"
ONE = """
[deck]
gpus = "none"
cpu_slots = 2

[[task]]
name = "a"
gpus = 0
command = "echo acc=0.5"
metrics.acc = { regex = "acc=(.*)" }
"""

MAKES_WAY = """
[deck]
gpus = "sim:1"

[[task]]
name = "train"
command = "touch ckpt; echo begun >>order; read _ <gate"
resume_command = "echo resumed >>order"
resume_when = "ckpt"
"""


@pytest.fixture
def used(deck: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deck]:
    """The deck as this program uses it, in the environment that its commands have."""
    deck.write(ONE)
    for name, value in deck.env.items():
        monkeypatch.setenv(name, value)
    found = Deck(deck.folder / "tasks.toml")
    yield found
    found.stop(tasks=True)


def test_what_is_added_runs_and_tells_its_results(used: Deck) -> None:
    name = used.add("echo acc=0.9", gpus=0, keys={"metrics.acc": '{regex = "acc=(.*)"}'})
    (task,) = used.wait(name, timeout_s=60)
    assert task.state == "succeeded"
    assert [result.values for result in used.results(name)] == [{"acc": 0.9}]
    assert "echo acc=0.9" in Path(used.file).read_text()


def test_when_waiting_is_over_the_results_tell_how_long_each_task_took(used: Deck) -> None:
    names = used.add_all(NewTask(f"echo {number}", gpus=0) for number in range(4))
    used.wait(timeout_s=60)
    told = used.results(*names, metrics=["duration_s"])
    assert [{*result.values} for result in told] == [{"duration_s"}] * 4


def test_a_metric_that_no_task_has_is_refused_once_one_has_ended_and_the_nearest_is_named(used: Deck) -> None:
    assert [result.values for result in used.results(metrics=["ac"])] == [{}]
    used.start()
    used.wait(timeout_s=60)
    with pytest.raises(DeckError, match=r"no task has the metric ac: there are acc; did you mean acc\?"):
        used.results(metrics=["ac:max"])
    assert used.results(metrics=["acc", "duration_s"])[0].values["acc"] == 0.5


def test_a_task_is_known_by_what_it_is_tried_with(used: Deck) -> None:
    sweep = (
        NewTask("echo loss=0.{lr}{seed}", gpus=0, params={"lr": lr, "seed": seed}) for lr in (4, 9) for seed in (1, 2)
    )
    names = used.add_all(sweep)
    used.wait(*names, timeout_s=60)
    assert names == ["echo-4-1", "echo-4-2", "echo-9-1", "echo-9-2"]
    assert {row.entry for row in used.tasks(*names)} == {"echo-{lr}-{seed}"}
    found = [(result.params["lr"], result.params["seed"]) for result in used.results("lr=9")]
    assert found == [("9", "1"), ("9", "2")]
    assert [row.state for row in used.tasks("seed=1")] == ["succeeded", "succeeded"]


def test_add_returns_one_name_and_leaves_several_tasks_to_add_all(used: Deck) -> None:
    before, keys = Path(used.file).read_text(), {"matrix.lr": "[1, 2]"}
    with pytest.raises(DeckError, match="makes 2 tasks"):
        used.add(["true"], gpus=0, name="t-{lr}", keys=keys)
    assert Path(used.file).read_text() == before
    assert used.add_all([NewTask(["true"], gpus=0, name="t-{lr}", keys=keys)]) == ["t-1", "t-2"]
    assert used.add(["true"], gpus=0, name="one", keys={"matrix.lr": "[1]"}) == "one"


def test_many_are_added_in_one_commit_or_not_at_all(used: Deck) -> None:
    before = Path(used.file).read_text()
    wrong = [NewTask(["true"], name=f"t{number}", gpus=0) for number in range(3)]
    with pytest.raises(DeckError, match="t1"):
        used.add_all([*wrong, NewTask(["true"], name="t1", gpus=0)])
    assert Path(used.file).read_text() == before
    used.start()
    names = used.add_all(NewTask(["true"], gpus=0) for _ in range(50))
    assert len(set(names)) == 50
    assert {task.state for task in used.wait(*[",".join(names)], timeout_s=60)} == {"succeeded"}


def test_a_failed_task_runs_again_with_other_values(used: Deck) -> None:
    Path(used.file).write_text(ONE + '[vars]\ncode = 1\n[[task]]\nname = "b"\ngpus = 0\ncommand = "exit {code}"\n')
    used.start()
    used.wait(timeout_s=60)
    assert [(task.name, task.reason) for task in used.tasks("state:failed")] == [("b", "exit 1")]
    assert used.retry("b", set={"code": "0"}) == ["b"]
    assert {task.name: task.state for task in used.wait(timeout_s=60)} == {"a": "succeeded", "b": "succeeded"}


def test_without_an_engine_a_deck_is_read_from_its_files(used: Deck) -> None:
    assert (used.state().engine, [task.state for task in used.state().tasks]) == (None, ["waiting"])
    pid = used.start()
    assert used.state().engine == pid
    used.wait(timeout_s=60)
    used.stop()
    assert (used.state().engine, [task.state for task in used.tasks()]) == (None, ["succeeded"])
    assert used.hold("a") == []


def test_waiting_has_an_end(used: Deck, deck: Running) -> None:
    used.add("sleep 600", name="long", gpus=0)
    with pytest.raises(TimeoutError, match="1 task has not come to its end after"):
        used.wait("long", timeout_s=0.2)
    assert used.cancel("long") == ["long"]
    assert [task.state for task in used.wait("long", timeout_s=60)] == ["cancelled"]
    with pytest.raises(DeckError, match=r"say which tasks; '\*' means all"):
        used.cancel()


def test_what_runs_on_without_an_engine_has_not_failed_and_its_result_is_there_for_the_next_one(
    used: Deck, deck: Running
) -> None:
    gate = deck.folder / "go"

    def last() -> str:
        os.mkfifo(gate)
        return gate.read_text()

    job = used.executor(deck.folder / "calls", gpus=0).submit(last)
    until(gate.exists)
    pid = used.state().engine
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: used.state().engine is None)
    with pytest.raises(DeckError, match="1 task has not come to its end, and no engine runs the deck") as raised:
        job.result()
    assert not isinstance(raised.value, JobFailedError)
    gate.write_text("done")
    used.start()
    assert job.result(60) == "done"


def test_what_a_program_wants_now_has_the_place_of_a_task_that_goes_on_afterwards(used: Deck, deck: Running) -> None:
    deck.write(MAKES_WAY)
    deck.gate()
    used.start()
    until(lambda: deck.lines("order") == ["begun"])
    wanted = [
        NewTask(f"echo {name} >>order", name=name, now=name == "now", cwd=deck.folder) for name in ("now", "later")
    ]
    assert used.add_all(wanted) == ["now", "later"]
    used.wait(timeout_s=60)
    assert deck.lines("order") == ["begun", "now", "resumed", "later"]


def test_of_tasks_that_one_entry_makes_either_all_or_none_are_wanted_now(used: Deck) -> None:
    before = Path(used.file).read_text()
    wanted = [NewTask("true", name="now", now=True), NewTask("true", name="t-{i}", keys={"matrix.i": "[1, 2]"})]
    with pytest.raises(DeckError, match="makes several tasks"):
        used.add_all(wanted)
    assert Path(used.file).read_text() == before


def test_commands_without_a_file_go_to_the_queue(deck: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in deck.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_STATE_HOME", str(deck.folder / "state"))
    queue = Deck(queue=True)
    try:
        names = queue.add_all([NewTask("exit 0", gpus=0), NewTask("exit 3", name="bad", gpus=0)])
        assert [(task.name, task.reason) for task in queue.wait(*names[1:], timeout_s=60)] == [("bad", "exit 3")]
    finally:
        queue.stop(tasks=True)


def test_a_script_that_adds_what_is_not_there_yet_may_run_again(used: Deck, deck: Running) -> None:
    (script,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "there" in block]
    deck.write('[deck]\ngpus = "none"\n')
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", script], cwd=deck.folder, env=deck.env, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        assert [task.state for task in used.tasks()] == ["succeeded"] * 3
        used.stop()


def test_what_happens_is_told_until_the_engine_ends(used: Deck) -> None:
    used.start()
    used.wait(timeout_s=60)
    happenings = used.events()

    async def told() -> list[str]:
        listening = asyncio.create_task(asyncio.to_thread(lambda: [event["event"] for event in happenings]))
        name = await asyncio.to_thread(used.add, ["true"], gpus=0)
        await asyncio.to_thread(used.wait, name)
        await asyncio.to_thread(used.stop)
        return await listening

    assert {"task_started", "task_ended"} <= set(asyncio.run(told()))


def test_the_same_for_asyncio(used: Deck) -> None:
    async def run() -> list[str]:
        deck = AsyncDeck(used.file)
        commands = ("true", "false", "true", "false")
        adds = (deck.add(command, gpus=0, name=f"t{place}") for place, command in enumerate(commands))
        names = await asyncio.gather(*adds)  # the first that finds no engine starts one
        return [task.state for name in names for task in await deck.wait(name, timeout_s=60)]

    assert asyncio.run(run()) == ["succeeded", "failed", "succeeded", "failed"]


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
def test_what_the_page_shows_runs(block: str, used: Deck, deck: Running) -> None:
    env = {**deck.env, "XDG_STATE_HOME": str(deck.folder / "state")}
    done = subprocess.run([sys.executable, "-c", block], cwd=deck.folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    best = "probe-4-1 {'lr': '4', 'seed': '1'} {'loss': 0.41}"
    assert done.stdout.splitlines()[-1] in (best, "succeeded", "None succeeded")


def test_functions_are_tasks_whose_results_come_back(used: Deck, deck: Running) -> None:
    base = 40

    def plus(number: int) -> int:
        return base + number

    executor = used.executor(deck.folder / "calls", gpus=0)
    jobs = executor.map_array(plus, [1, 2])
    assert [job.result(60) for job in jobs] == [41, 42]
    assert [task.state for task in used.tasks("plus-*")] == ["succeeded", "succeeded"]


def test_what_a_function_raises_is_raised_with_where_it_was(used: Deck, deck: Running) -> None:
    job = used.executor(deck.folder / "calls", gpus=0).submit(int, "x")
    error = job.exception(60)
    assert isinstance(error, ValueError)
    assert "in call" in "".join(error.__notes__)
    with pytest.raises(ValueError, match="invalid literal"):
        job.result()
    assert job.task.reason.startswith("exit 1: ValueError")


def test_an_exception_that_cannot_be_read_again_is_told_by_its_text_and_where_it_was(used: Deck, deck: Running) -> None:
    class OfTwoError(Exception):
        def __init__(self, what: str, where: str) -> None:
            super().__init__(f"{what} in {where}")

    def fails() -> None:
        raise OfTwoError("dust", "lens")

    error = used.executor(deck.folder / "calls", gpus=0).submit(fails).exception(60)
    assert (type(error), str(error)) == (RuntimeError, "OfTwoError: dust in lens")
    assert "in fails" in "".join(error.__notes__)


def test_a_call_that_is_stopped_as_it_runs_again_has_no_result_of_before(used: Deck, deck: Running) -> None:
    again = deck.folder / "again"

    def fails_then_waits() -> None:
        if not again.exists():
            again.touch()
            raise ValueError
        time.sleep(600)

    job = used.executor(deck.folder / "calls", gpus=0).submit(fails_then_waits)
    assert isinstance(job.exception(60), ValueError)
    used.retry(job.name)
    until(lambda: not Path(f"{job.path}.result").exists())
    job.cancel()
    with pytest.raises(JobFailedError, match="is cancelled"):
        job.result(60)


def test_the_queue_refuses_what_means_nothing_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(DeckError, match="--needs wants a task file"):
        Deck(queue=True).add("true", gpus=0, needs=["a"])


def test_a_call_that_was_cancelled_says_so(used: Deck, deck: Running) -> None:
    job = used.executor(deck.folder / "calls", gpus=0).submit(time.sleep, 600)
    assert not job.done()
    job.cancel()
    with pytest.raises(JobFailedError, match="is cancelled"):
        job.result(60)


def test_importing_gpudeck_loads_neither_torch_nor_the_screen() -> None:
    code = "import sys, gpudeck; gpudeck.Deck; print({'torch', 'textual', 'numpy'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
