"""One deck in which tasks end in every way there is: each reason is told, and nothing of any tree outlives the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, Ran, deck_in, lives

DECK = """
[deck]
gpus = "sim:6"

[defaults]
grace = "300ms"
linger = "200ms"
backoff = "50ms"

[[task]]
name = "fine"
command = "echo working; echo a word on stderr >&2"

[[task]]
name = "fails"
command = ["python3", "-c", "raise ValueError('bad rate')"]

[[task]]
name = "killed"
command = "kill -KILL $$"

[[task]]
name = "times-out"
command = "exec sleep 100"
timeout = "400ms"

[[task]]
name = "stubborn"
timeout = "700ms"
command = ["python3", "stubborn.py"]

[[task]]
name = "no-command"
command = ["trian.py", "--epochs", "3"]

[[task]]
name = "no-folder"
command = "true"
cwd = "not/there"

[[task]]
name = "oom"
command = ["python3", "oom.py", "{bs}"]
on_oom = [{ vars = { bs = 16 } }, { vars = { bs = 8 } }]

[[task]]
name = "flaky"
command = "echo x >>flaky.count; test $(wc -l <flaky.count) -ge 3"
retries = 3

[[task]]
name = "background"
command = "sleep 100 & echo $! >background.pid"

[[task]]
name = "daemon"
command = "setsid -f sleep 100; echo done"

[[task]]
name = "leaves"
leftovers = "leave"
command = "sleep 100 & echo $! >leaves.pid"

[[task]]
name = "waits"
leftovers = "wait"
command = "(sleep 0.4; echo late) & echo early"

[[task]]
name = "no-output"
command = "echo I forgot"
outputs = ["out/model.pt"]

[[task]]
name = "stale-output"
command = "echo file exists, nothing to do"
outputs = ["out/stale.pt"]

[[task]]
name = "resumes"
command = "touch resume.ckpt; exit 3"
resume_command = "echo went on from the checkpoint"
resume_when = "*.ckpt"
retries = 1

[[task]]
name = "odd-code"
command = "exit 7"
success_codes = [0, 7]

[[task]]
name = "warned"
warn_signal = "USR1"
warn_before = "60s"
timeout = "62s"
command = ["python3", "warned.py"]

[[task]]
name = "needs-failed"
needs = ["fails"]
command = "true"

[[task]]
name = "after-failed"
after = ["fails"]
command = "true"

[[task]]
name = "needs-blocked"
needs = ["needs-failed"]
command = "true"

[vars]
bs = 32
"""

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) == 1:
    child = subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True, stdout=subprocess.PIPE)
    child.stdout.readline()
    open("stubborn.pids", "w").write(f"{os.getpid()} {child.pid}")
else:
    print("ready", flush=True)
time.sleep(100)
"""

WARNED = """
import signal, sys
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(print("saved a checkpoint")))
signal.pause()
"""

OOM = """
import sys
if int(sys.argv[1]) > 8:
    print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", file=sys.stderr)
    sys.exit(1)
print("fits with", sys.argv[1])
"""


@pytest.fixture(scope="module")
def deck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deck]:
    folder: Path = tmp_path_factory.mktemp("outcomes")
    with deck_in(folder) as deck:
        deck.write(DECK)
        deck.write(STUBBORN, "stubborn.py")
        deck.write(OOM, "oom.py")
        deck.write(WARNED, "warned.py")
        (folder / "out").mkdir()
        (folder / "logs" / "stale-output").mkdir(parents=True)
        (folder / "logs" / "stale-output" / "attempt-1.log").write_text("from before\n")
        (folder / "out" / "stale.pt").write_text("from before")
        yield deck


@pytest.fixture(scope="module")
def ran(deck: Deck) -> Ran:
    ran = deck.run()
    assert ran.err == ""
    return ran


def reason(ran: Ran, task: str) -> str:
    return ran.rows[task]["reason"]


def test_every_task_has_a_row_with_its_state(ran: Ran) -> None:
    assert ran.code == 1
    assert ran.states == {
        "fine": "succeeded",
        "fails": "failed",
        "killed": "failed",
        "times-out": "failed",
        "stubborn": "failed",
        "no-command": "failed",
        "no-folder": "failed",
        "oom": "succeeded",
        "flaky": "succeeded",
        "background": "succeeded",
        "daemon": "succeeded",
        "leaves": "succeeded",
        "waits": "succeeded",
        "no-output": "failed",
        "stale-output": "failed",
        "resumes": "succeeded",
        "odd-code": "succeeded",
        "warned": "succeeded",
        "needs-failed": "blocked",
        "after-failed": "succeeded",
        "needs-blocked": "blocked",
    }


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("fails", "exit 1: ValueError: bad rate"), ("times-out", "timeout"), ("no-command", "trian.py"),
        ("no-folder", "not/there"), ("no-output", "missing output: out/model.pt"), ("needs-failed", "fails"),
        ("needs-blocked", "needs-failed"),
    ],
)  # fmt: skip
def test_each_end_tells_its_reason(ran: Ran, task: str, said: str) -> None:
    assert said in reason(ran, task)
    assert ran.rows[task]["attempts"] <= 1


def test_a_failure_shows_the_traceback(ran: Ran) -> None:
    assert any("Traceback" in line for line in ran.rows["fails"]["digest"])


def test_a_killed_task_tells_137_as_both_things_that_it_may_be(ran: Ran) -> None:
    assert "137" in reason(ran, "killed")
    assert "KILL" in reason(ran, "killed")


def test_a_task_that_ignores_term_is_killed_after_the_grace(ran: Ran) -> None:
    (end,) = ran.ended("stubborn")
    assert end["reason"].startswith("timeout")
    assert end["duration_s"] >= 0.9


def test_a_grandchild_in_its_own_session_that_ignores_term_is_killed_too(deck: Deck, ran: Ran) -> None:
    assert [pid for pid in deck.text("stubborn.pids").split() if lives(int(pid))] == []


def test_out_of_memory_climbs_the_ladder_without_using_a_retry(ran: Ran) -> None:
    assert "out of memory" in ran.ended("oom")[0]["reason"]
    assert [(end["outcome"], end["next"]) for end in ran.ended("oom")] == [
        ("failed", "queued"),
        ("failed", "queued"),
        ("ok", "succeeded"),
    ]


def test_each_rung_runs_with_its_values(deck: Deck, ran: Ran) -> None:
    assert [deck.record("oom", attempt)["command"][-1] for attempt in (1, 2, 3)] == ["32", "16", "8"]


def test_a_task_with_retries_goes_again_until_it_succeeds(ran: Ran) -> None:
    assert [end["next"] for end in ran.ended("flaky")] == ["backoff", "backoff", "succeeded"]


def test_a_process_left_in_the_background_is_stopped(deck: Deck, ran: Ran) -> None:
    assert not lives(int(deck.text("background.pid")))


def test_a_process_left_by_choice_goes_on_and_is_named(deck: Deck, ran: Ran) -> None:
    left = int(deck.text("leaves.pid"))
    assert ran.ended("leaves")[0]["left_behind_pids"] == [left]
    assert lives(left)


def test_a_task_that_waits_for_its_leftovers_ends_after_them(deck: Deck, ran: Ran) -> None:
    assert deck.lines("logs/waits/attempt-1.log") == ["early", "late"]


def test_an_output_from_before_the_attempt_is_stale(ran: Ran) -> None:
    assert reason(ran, "stale-output").startswith("stale output")


def test_an_attempt_after_one_that_did_not_succeed_resumes(deck: Deck, ran: Ran) -> None:
    assert deck.lines("logs/resumes/attempt-2.log") == ["went on from the checkpoint"]


def test_a_task_is_warned_before_its_timeout(deck: Deck, ran: Ran) -> None:
    assert deck.lines("logs/warned/attempt-1.log") == ["saved a checkpoint"]


def test_a_code_named_as_success_is_one(ran: Ran) -> None:
    assert ran.ended("odd-code")[0]["exit_code"] == 7


def test_nothing_of_the_trees_lives_but_what_was_left_by_choice(deck: Deck, ran: Ran) -> None:
    assert deck.living() == [int(deck.text("leaves.pid"))]


def test_stdout_and_stderr_are_in_files_of_their_own(deck: Deck, ran: Ran) -> None:
    assert deck.lines("logs/fine/attempt-1.log") == ["working"]
    assert deck.lines("logs/fine/attempt-1.err") == ["a word on stderr"]
