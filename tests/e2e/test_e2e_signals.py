"""What signals and closed terminals do to a headless run."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.e2e.decks import Deck, lives, until
from tests.fakes import forked

STANDARD_SIGNALS = (1 << 31) - 1
"""Bits of 1 to 31 in /proc/PID/status; the C library keeps some real-time ones for itself."""

GRACEFUL = """
    [deck]
    gpus = "sim:2"
    [defaults]
    grace = "20s"
    [[task]]
    name = "saves-{i}"
    matrix.i = [0, 1]
    retries = 1
    command = "trap 'echo saved {i} >>saved; exit 0' TERM; echo $$ >>pids; test -e go || read _ <gate"
    [[task]]
    name = "last"
    needs = ["saves-*"]
    gpus = 0
    command = "true"
"""


def pids(deck: Deck, count: int) -> list[int]:
    until(lambda: len(deck.lines("pids")) >= count)
    return [int(line) for line in deck.lines("pids")]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_signal_stops_the_tasks_gracefully(deck: Deck, number: signal.Signals, code: int) -> None:
    deck.write(GRACEFUL)
    deck.gate()
    engine = deck.start()
    pids(deck, 2)
    engine.signal(number)
    ran = engine.finish()
    assert ran.code == code
    assert sorted(deck.lines("saved")) == ["saved 0", "saved 1"]
    assert [end["outcome"] for end in ran.ended("saves-0")] == ["interrupted"]
    assert ran.events[-1]["ended"] is False


def test_the_next_start_continues_what_was_interrupted_uncharged(deck: Deck) -> None:
    deck.write(GRACEFUL)
    deck.gate()
    engine = deck.start()
    pids(deck, 2)
    engine.signal(signal.SIGINT)
    engine.finish()
    (deck.folder / "go").touch()
    ran = deck.run()
    assert ran.code == 0
    assert ran.events[0]["continued"] is True
    assert ran.events[0]["run"] == 1
    assert ran.rows["saves-0"]["attempts"] == 2


def test_the_summary_of_a_continued_run_tells_also_what_ended_before(deck: Deck) -> None:
    deck.write(
        """
        [deck]
        gpus = "sim:2"
        halt = "never"
        [[task]]
        name = "bad"
        command = "echo ValueError: no data >&2; exit 3"
        [[task]]
        name = "late"
        after = ["bad"]
        command = "echo $$ >>pids; while [ ! -e go ]; do sleep 0.01; done"
        """
    )
    engine = deck.start()
    pids(deck, 1)
    engine.signal(signal.SIGINT)
    before = engine.finish().rows["bad"]
    (deck.folder / "go").touch()
    after = deck.run().rows["bad"]
    assert (before["gpus"], before["log"], before["digest"][0]) == (
        [0],
        "logs/bad/attempt-1.err",
        "ValueError: no data",
    )
    told = ("gpus", "log", "digest", "reason", "kind")
    assert [after[key] for key in told] == [before[key] for key in told]
    assert after["duration_s"] == pytest.approx(before["duration_s"], abs=0.01)


DEAF = """
    [deck]
    gpus = "sim:1"
    [defaults]
    grace = "60s"
    [[task]]
    name = "deaf"
    command = ["bash", "-c", "trap '' TERM INT; echo $$ >>pids; while :; do sleep 0.1; done"]
"""


def test_a_second_signal_kills_at_once(deck: Deck) -> None:
    deck.write(DEAF)
    engine = deck.start()
    (pid,) = pids(deck, 1)
    engine.signal(signal.SIGINT)
    engine.note("SIGINT")
    engine.signal(signal.SIGINT)
    ran = engine.finish()
    assert ran.code == 130
    assert not lives(pid)
    assert ran.ended("deaf")[0]["duration_s"] < 60


def test_in_github_actions_the_grace_after_a_signal_is_short(deck: Deck) -> None:
    deck.tune("engine.signals", CI_GRACE_S=0.4)
    deck.write(DEAF)
    engine = deck.start(env={"GITHUB_ACTIONS": "true"})
    pids(deck, 1)
    engine.signal(signal.SIGTERM)
    ran = engine.finish()
    assert ran.code == 143
    assert 0.3 < ran.ended("deaf")[0]["duration_s"] < 60


def test_sighup_goes_on(deck: Deck) -> None:
    deck.write(GRACEFUL)
    gate = deck.gate()
    engine = deck.start()
    pids(deck, 2)
    engine.signal(signal.SIGHUP)
    engine.note("terminal")
    gate.let(2)
    assert engine.finish().code == 0


def test_tasks_get_signals_at_their_defaults(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "t"
        command = "grep -E 'Sig(Ign|Blk)' /proc/self/status >signals"
    """)
    deck.run()
    assert [int(line.split()[1], 16) & STANDARD_SIGNALS for line in deck.lines("signals")] == [0, 0]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_closed_stdout_stops_nothing(deck: Deck, options: tuple[str, ...]) -> None:
    deck.write(GRACEFUL)
    gate = deck.gate()
    read_end, write_end = os.pipe()
    with open(os.devnull, "rb") as null, open(deck.folder / "said", "wb") as said:
        fds = [null.fileno(), write_end, said.fileno()]
        process = forked.fork(["--headless", "tasks.toml", *options], cwd=deck.folder, env=deck.env, fds=fds)
    os.close(write_end)
    pids(deck, 2)
    os.close(read_end)
    gate.let(2)
    assert (process.wait(60), deck.text("said")) == (0, "")
    assert "ok    last" in deck.text("logs/deck.log")


def test_a_signal_before_anything_runs_ends_the_engine(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "again"
        command = "false"
        retries = 5
        backoff = "10m"
    """)
    engine = deck.start()
    engine.ended("again")
    engine.signal(signal.SIGINT)
    assert engine.finish().code == 130


def test_a_run_without_standard_streams_goes_as_any_other(deck: Deck) -> None:
    deck.write(GRACEFUL)
    (deck.folder / "go").touch()
    command = ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", *deck.prefix, "--headless", "tasks.toml"]
    assert subprocess.run(command, cwd=deck.folder, env=deck.env, timeout=60, check=False).returncode == 0
    assert "ok    last" in deck.text("logs/deck.log")
    assert deck.facts()


def test_a_task_that_would_die_of_its_warning_gets_none_and_that_is_said(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "deaf"
        command = ["sleep", "99"]
        timeout = "500ms"
        warn_signal = "USR1"
        warn_before = "300ms"
    """)
    ran = deck.run()
    assert "deaf: nothing in it handles USR1; no warning was sent" in ran.notes
    assert ran.ended("deaf")[0]["reason"].startswith("timeout")
