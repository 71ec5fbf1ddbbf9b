"""A deck whose folder several hosts and containers see. Hosts are namespaces with a name, a machine id and a boot id of
their own; the file server is one that /proc/self/mountinfo tells of."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudeck.engine.core.events import AttemptEnded
from tests.commands.commands_rig import Commanded
from tests.e2e.decks import lives, until
from tests.e2e.live_rig import NETWORK, commanded, host_files, in_container, run_as, run_on, watching

GATED = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "long"
    command = "echo $$ >>pids; read _ <gate; exit 4"
    [[task]]
    name = "short"
    command = "true"
"""


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Commanded]:
    with commanded(tmp_path / "deck") as deck:
        deck.write(GATED)
        deck.gate()
        yield deck


@pytest.fixture
def gpu8(tmp_path: Path) -> dict[str, str]:
    """Another host, with a local disk of its own."""
    files = host_files("gpu8", tmp_path / "hosts")
    return {"name": "gpu8", "XDG_STATE_HOME": str(tmp_path / "gpu8-disk"), **files}


def begin(deck: Commanded) -> int:
    """Start the deck here; returns the engine's pid once its long task runs and nothing is left of the short one."""
    assert deck.go().code == 0
    deck.until_state("short", "succeeded")
    until(lambda: deck.lines("pids"))
    until(lambda: len(os.listdir(deck.folder / ".gpudeck/tasks/attempts")) == 1)
    return deck.engine_pid()


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(lives(pid) for pid in pids))


def abandon(deck: Commanded) -> int:
    """Start the deck here and kill its engine once its long task runs; returns its pid."""
    engine = begin(deck)
    kill(engine)
    until(lambda: deck.holder() is None)  # what it was about to start has its lock until the exec
    return engine


def host() -> str:
    return os.uname().nodename


# -- a deck on a local disk, seen from another host --------------------------------------------------------------------


def test_a_command_on_another_host_names_the_one_where_the_engine_runs(deck: Commanded, gpu8: dict[str, str]) -> None:
    engine = begin(deck)
    for command in ("unpause", "status", "retry long", "stop", "gpus drain 0"):
        told = run_on(deck, gpu8, *command.split())
        assert told.code == 3, command
        assert f"this deck runs on {host()} (engine {engine})" in told.err
        assert f"ssh -t {host()} gpudeck" in told.err
        assert deck.engine_pid() == engine


def test_what_another_host_left_unfinished_is_neither_adopted_nor_judged(deck: Commanded, gpu8: dict[str, str]) -> None:
    abandon(deck)
    for words in (("unpause",), ("--headless", "tasks.toml")):
        told = run_on(deck, gpu8, *words)
        assert told.code == 3
        assert f"this deck runs on {host()} (1 task, engine " in told.err
        assert "`gpudeck takeover` when" in told.err
    assert not [fact for fact in deck.facts() if isinstance(fact, AttemptEnded) and fact.task == "long"]
    assert deck.go().code == 0
    with watching(deck) as seen:
        deck.gates[0].let()
        seen.until_states(long="failed")
        assert (seen.rows["long"].attempt, seen.rows["long"].exit_code) == (1, 4)


def test_a_look_from_another_host_while_nobody_runs_it_names_the_host_and_judges_nothing(
    deck: Commanded, gpu8: dict[str, str]
) -> None:
    abandon(deck)
    for command in ("ls", "status", "explain long", "logs long", "apply --dry-run"):
        told = run_on(deck, gpu8, *command.split())
        assert (told.code, f"this deck runs on {host()} (1 task, engine " in told.err) == (0, True), command
        assert not [word for word in ("lost", "gone;", "goes on with the run") if word in told.out + told.err]
        assert deck.state("long") == "running"


def test_what_another_host_has_to_do_with_an_unfinished_deck_is_left_to_the_first(
    deck: Commanded, gpu8: dict[str, str]
) -> None:
    abandon(deck)
    kept = (deck.folder / ".gpudeck/tasks/environment").read_bytes()
    for command in ("stop", "stop --tasks", "wait", "attach", "env --refresh"):
        told = run_on(deck, gpu8, *command.split())
        assert (told.code, f"this deck runs on {host()} (1 task, engine " in told.err) == (3, True), command
        assert (deck.folder / ".gpudeck/tasks/environment").read_bytes() == kept


def test_a_takeover_asks_and_then_starts_what_the_other_host_lost(deck: Commanded, gpu8: dict[str, str]) -> None:
    engine = abandon(deck)
    kill(*deck.living())
    asked = run_on(deck, gpu8, "takeover")
    assert (asked.code, "nothing was done" in asked.err) == (2, True)
    assert f"engine {engine} on {host()} had the deck since" in asked.err
    assert "1 task of it had not ended" in asked.err
    taken = run_on(deck, gpu8, "takeover", "-y")
    assert taken.code == 0, taken.err
    until(lambda: len(deck.lines("pids")) == 2)
    deck.gates[0].let()
    told = run_on(deck, gpu8, "wait")
    assert told.code == 1
    record = deck.folder / "logs/long/attempt-2.json"
    until(lambda: record.exists() and '"gpu8"' in record.read_text())
    assert deck.command("status").code in (0, 3)


def test_a_deck_that_has_ended_may_go_on_anywhere(deck: Commanded, gpu8: dict[str, str]) -> None:
    engine = begin(deck)
    deck.gates[0].let()
    assert deck.command("wait").code == 1
    deck.command("stop")
    until(lambda: not lives(engine))
    (deck.folder / ".gpudeck/tasks/attempts/of-a-start-that-came-to-nothing").write_text("void\n")
    told = run_on(deck, gpu8, "retry", "long")
    assert told.code == 0, told.err
    until(lambda: len(deck.lines("pids")) == 2)
    deck.gates[0].let()
    assert run_on(deck, gpu8, "wait").code == 1


# -- boots and containers ----------------------------------------------------------------------------------------------


def test_after_a_reboot_of_the_same_host_what_ran_is_gone_and_runs_again_uncharged(
    deck: Commanded, tmp_path: Path
) -> None:
    abandon(deck)
    kill(*deck.living())
    machine = Path("/etc/machine-id")
    same = machine.read_text() if machine.exists() else ""
    rebooted = {"name": host(), **host_files(host(), tmp_path / "hosts", machine=same, boot="after")}
    planned = json.loads(run_on(deck, rebooted, "plan", "--json").out)
    assert {row["state"] for row in planned if row["task"] == "long"} == {"runs"}
    told = run_on(deck, rebooted, "unpause")
    assert told.code == 0, told.err
    until(lambda: len(deck.lines("pids")) == 2)
    deck.gates[0].let()
    assert run_on(deck, rebooted, "wait").code == 1


@pytest.fixture
def container(tmp_path: Path) -> tuple[str, ...]:
    """Another pid namespace of the same boot, as after the restart of a container."""
    return in_container("3f2a9c", tmp_path / "hosts")


def test_in_another_pid_namespace_of_the_same_boot_it_is_unknown_and_not_started_again(
    deck: Commanded, container: tuple[str, ...]
) -> None:
    abandon(deck)
    told = run_as(deck, container, "--headless", "tasks.toml", "--json")
    assert told.code == 1
    assert told.states["long"] == "unknown"
    assert "--takeover" in told.notes
    assert len(deck.lines("pids")) == 1


def test_what_was_unknown_in_a_container_is_adopted_where_it_runs(deck: Commanded, container: tuple[str, ...]) -> None:
    abandon(deck)
    assert run_as(deck, container, "--headless", "tasks.toml").code == 1
    assert deck.go().code == 0
    with watching(deck) as seen:
        deck.gates[0].let()
        seen.until_states(long="failed")
        assert (seen.rows["long"].attempt, seen.rows["long"].exit_code) == (1, 4)


# -- a file server -----------------------------------------------------------------------------------------------------


@pytest.fixture
def served(deck: Commanded, tmp_path: Path) -> Commanded:
    """The deck's folder is on a file server; this host has a local disk."""
    deck.env |= {
        "PYTHONPATH": str(NETWORK),
        "GPUDECK_TEST_NETWORK": str(deck.folder),
        "XDG_STATE_HOME": str(tmp_path / "disk"),
    }
    return deck


def state_of(deck: Commanded) -> Path:
    (folder,) = Path(deck.env["XDG_STATE_HOME"], "gpudeck").iterdir()
    return folder


def test_on_a_file_server_the_state_is_on_a_local_disk_and_clients_find_the_engine(served: Commanded) -> None:
    assert served.go().code == 0
    assert sorted(os.listdir(served.folder / ".gpudeck")) == [".gitignore", "tasks.json"]
    assert "deck.db" in os.listdir(state_of(served))
    assert served.command("hold", "short").code in (0, 2)
    told = served.command("status")
    assert (told.code, "engine" in told.out, "(detached)" in told.out) == (0, True, True)
    assert served.command("stop", "--tasks").code == 0


def test_the_next_engine_finds_the_state_and_its_tasks_again(served: Commanded) -> None:
    assert served.go().code == 0
    assert served.command("stop").code == 0
    assert served.go().code == 0
    served.gates[0].let()
    assert served.command("wait").code == 1
    assert len(served.lines("pids")) == 1
    assert served.command("stop").code == 0


@pytest.mark.parametrize("running", [True, False], ids=["its engine runs", "no engine runs"])
def test_a_second_host_on_the_same_file_server_is_refused(
    served: Commanded, gpu8: dict[str, str], running: bool
) -> None:
    assert served.go().code == 0
    if not running:
        assert served.command("stop", "--tasks").code == 0
    for words in (("unpause",), ("status",), ("--headless", "tasks.toml")):
        told = run_on(served, gpu8, *words)
        assert (told.code, f"this deck's state lies on {host()}" in told.err) == (3, True)
        assert f"ssh -t {host()} gpudeck" in told.err
    if running:
        assert served.command("stop", "--tasks").code == 0


def test_a_takeover_from_a_file_server_begins_a_new_state_that_the_old_host_respects(
    served: Commanded, gpu8: dict[str, str]
) -> None:
    assert served.go().code == 0
    until(lambda: served.lines("pids"))
    assert served.command("stop", "--tasks").code == 0
    taken = run_on(served, gpu8, "takeover", "-y")
    assert taken.code == 0, taken.err
    until(lambda: len(served.lines("pids")) == 2)
    assert (served.folder / "logs/long/attempt-2.log").exists()
    told = served.command("unpause")
    assert (told.code, "this deck's state lies on gpu8" in told.err) == (3, True)
    assert run_on(served, gpu8, "stop", "--tasks").code == 0
