"""The two shells around a task on another node, with a script in srun's place: it hands on input, output and code, puts
errors where it is told, and says things of its own."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inside.adapters import relay as shells
from tests.inside.adapters import relayed

TIMEOUT_S = 60.0
SRUN = """#!/bin/bash
errors=${1#--error=}
[ "$2" = --open-mode=append ] && [ "$3" = -- ] || { echo "srun: error: unrecognised option" >&2; exit 1; }
shift 3
echo "srun: Step creation temporarily disabled, retrying" >&2
[ ! -e "$0.refuses" ] || { echo "srun: error: Unable to create step" >&2; exit 1; }
exec 9>&2 2>>"$errors"
"$@" 9>&-
code=$?
[ "$code" = 0 ] || echo "srun: error: node2: task 0: Exited with exit code $code" >&9
exit "$code"
"""


class Relay:
    def __init__(self, folder: Path) -> None:
        self.srun = folder / "srun"
        self.srun.write_text(SRUN)
        self.srun.chmod(0o755)
        self.errors = folder / "err"
        self.started: list[subprocess.Popen[str]] = []

    def start(self, script: str) -> subprocess.Popen[str]:
        with self.errors.open("a") as errors:
            process = subprocess.Popen(
                relayed([str(self.srun), "--"], ["bash", "-c", script]),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self.started.append(process)
        return process

    def said(self, script: str) -> tuple[int, list[str]]:
        """Exit code, and lines on standard error."""
        return self.start(script).wait(TIMEOUT_S), self.errors.read_text().splitlines()


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    found = Relay(tmp_path)
    yield found
    for process in found.started:
        process.kill()
        process.wait()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_code_of_the_command_comes_back(relay: Relay) -> None:
    assert relay.start("exit 3").wait(TIMEOUT_S) == 3


def test_a_command_that_a_signal_ended_tells_so_as_a_shell_does(relay: Relay) -> None:
    assert relay.start("kill -9 $$").wait(TIMEOUT_S) == 128 + signal.SIGKILL


_WAITS = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIG{name}])
print("ready", flush=True)
signal.sigwait([signal.SIG{name}])
print("got", flush=True)
sys.exit(7)
"""


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "USR1", "USR2"])
def test_a_signal_reaches_the_command_which_may_go_on(name: str, relay: Relay) -> None:
    process = relay.start(f"exec {shlex.quote(sys.executable)} -c {shlex.quote(_WAITS.format(name=name))}")
    assert line(process) == "ready"
    process.send_signal(signal.Signals[f"SIG{name}"])
    assert line(process) == "got"
    assert process.wait(TIMEOUT_S) == 7


def test_the_command_reads_nothing_of_what_the_shells_say_to_each_other(relay: Relay) -> None:
    process = relay.start("cat; echo end")
    assert line(process) == "end"
    assert process.wait(TIMEOUT_S) == 0


def test_a_command_whose_line_is_cut_is_killed(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    often = shells.HERE.replace("read -r -t 5 -u 4", "read -r -t 0.1 -u 4")
    assert often != shells.HERE
    monkeypatch.setattr(shells, "HERE", often)
    process = relay.start("echo $$; exec sleep 1000")
    command = os.pidfd_open(int(line(process)))
    process.kill()
    process.wait()
    try:
        assert select.select([command], [], [], TIMEOUT_S)[0], "the command lives on"
    finally:
        os.close(command)


@pytest.mark.parametrize(("end", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_standard_error_holds_what_the_command_wrote_alone(relay: Relay, end: str, code: int) -> None:
    relay.errors.write_text("before\n")
    assert relay.said(f"echo bad batch >&2; {end}") == (code, ["before", "bad batch"])


def test_a_step_that_did_not_come_to_run_tells_what_srun_says(relay: Relay) -> None:
    relay.srun.with_name("srun.refuses").touch()
    code, said = relay.said("true")
    assert (code, said[-1]) == (1, "srun: error: Unable to create step")


def test_a_command_that_cannot_be_started_says_so_on_standard_error(relay: Relay) -> None:
    code, said = relay.said("exec /nowhere/train")
    assert (code, "/nowhere/train" in said[0]) == (127, True)
