"""An engine without a terminal: what ends it, what its tasks notice, and what the next one finds."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
from pathlib import Path

import pytest

from tests.fakes import forked
from tests.fakes.live_deck import live_deck
from tests.inside.server import Gone, connect, held_by, read_holder

NETWORK = Path(__file__).parents[1] / "fakes" / "network_mount"
WAITS = "while [ ! -e go ]; do sleep 0.02; done"

DECK = f"""
[deck]
gpus = "sim:2"
[[task]]
name = "first"
command = "touch up; {WAITS}; exit 5"
[[task]]
name = "second"
command = "{WAITS}"
[[task]]
name = "third"
command = "true"
"""

DONE = """
[deck]
gpus = "sim:2"
[[task]]
name = "good"
command = "echo ran >> good.txt"
[[task]]
name = "bad"
command = "echo ran >> bad.txt; exit 3"
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_engine_alone(tmp_path: Path, number: signal.Signals) -> None:
    with live_deck(tmp_path, DECK) as deck:
        engine = deck.start()
        with deck.client() as client:
            rows = deck.until_states(client, first="running")
            engine.send_signal(number)
            with pytest.raises(Gone):
                list(client.messages())
        assert engine.wait(20) == 0
        os.kill(rows["first"].pid, 0)
        deck.start()
        with deck.client() as client:
            assert deck.until_states(client, first="running")["first"].attempt == 1


def test_an_interrupt_from_a_keyboard_is_not_for_it(tmp_path: Path) -> None:
    with live_deck(tmp_path, DECK) as deck:
        engine = deck.start()
        engine.send_signal(signal.SIGINT)
        with deck.client() as client:
            deck.until_states(client, first="running")


def test_opening_a_deck_that_is_over_repeats_nothing(tmp_path: Path) -> None:
    with live_deck(tmp_path, DONE) as deck:
        deck.start()
        with deck.client() as client:
            deck.until_states(client, good="succeeded", bad="failed")
            deck.until_rows(client, lambda _: client.picture and client.picture.head.ended)
            client.request("stop")
        deck.start()
        with deck.client() as client:
            rows = deck.until_states(client, good="succeeded", bad="failed")
            assert client.picture is not None
            assert client.picture.head.ended
            assert rows["bad"].attempt == 1
            client.request("stop")
        assert deck.text("good.txt") + deck.text("bad.txt") == "ran\nran\n"


def test_a_failed_task_is_no_reason_for_systemd_to_start_the_engine_again(tmp_path: Path) -> None:
    with live_deck(tmp_path, DONE) as deck:
        deck.tune("engine.ending", ALONE_S=0.2)
        engine = deck.start()
        with deck.client() as client:
            deck.until_states(client, bad="failed", good="succeeded")
        assert engine.wait(30) == 0


def held_open(pid: int, path: str) -> int:
    """How often a process has it open."""
    return sum(os.path.realpath(each.path) == path for each in os.scandir(f"/proc/{pid}/fd"))


def test_a_removed_socket_comes_back_where_the_lock_says(tmp_path: Path) -> None:
    with live_deck(tmp_path, DECK) as deck:
        deck.env["GPUDECK_SOCKET_DIR"] = str(tmp_path / "sockets")
        deck.start()
        holder = read_holder(str(deck.state))
        assert holder is not None
        with deck.client() as attached:
            attached.wait_for_picture()
            os.unlink(holder.address)
            deck.until(lambda: os.path.exists(holder.address), "the socket is back")
            folder = os.path.dirname(holder.address)
            deck.until(lambda: held_open(holder.pid, folder) == 1, "the other one is closed")
            with deck.client() as another:
                deck.until_states(another, first="running")
            assert attached.request("status")["head"]["run"] == 1


def test_a_paused_headless_run_waits_as_long_as_somebody_is_there_to_go_on(tmp_path: Path) -> None:
    with live_deck(tmp_path, DECK) as deck:
        run = forked.popen(("--headless", "tasks.toml"), cwd=tmp_path, env=deck.env, merged=True)
        deck.engines.append(run)
        deck.until(deck.holder, "it listens")
        with deck.client() as client:
            client.request("hold", tasks=["third"])
            (tmp_path / "go").touch()
            deck.until_states(client, first="failed", second="succeeded")
            assert run.poll() is None
            client.request("release", tasks=["third"])
            assert run.wait(30) == 1
        assert "ok    third" in (tmp_path / "logs" / "deck.log").read_text()


MANY = f"""
[deck]
gpus = "sim:8"
[[task]]
name = "t-{{i}}"
command = "true"
matrix.i = {list(range(2000))}
"""


def test_an_engine_that_is_stopped_in_the_middle_of_starts_and_ends_ends_well(tmp_path: Path) -> None:
    with live_deck(tmp_path, MANY) as deck:
        for _ in range(3):
            engine = deck.start()
            with deck.client() as client:
                deck.until_rows(client, lambda rows: any(row.state == "running" for row in rows.values()))
                with contextlib.suppress(Gone):  # it may be gone before it has answered
                    client.request("stop")
            assert engine.wait(20) == 0
        assert "Traceback" not in deck.text(".gpudeck/tasks/engine.log")


def test_a_client_for_whom_no_descriptor_is_left_does_not_end_the_engine(tmp_path: Path) -> None:
    with live_deck(tmp_path, DECK) as deck:
        engine = deck.start()
        with deck.client() as client:
            deck.until_states(client, first="running", second="running")
            hard = resource.prlimit(engine.pid, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(engine.pid, resource.RLIMIT_NOFILE, (3, hard))
            holder = held_by(str(deck.state))
            assert holder is not None
            with connect(holder.address):
                deck.until(lambda: "no client can attach" in deck.text("logs/deck.log"), "it was noticed")
                resource.prlimit(engine.pid, resource.RLIMIT_NOFILE, (hard, hard))
                (tmp_path / "go").touch()
                deck.until_states(client, third="succeeded")


def test_a_file_server_that_takes_no_line_of_deck_log_holds_up_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    os.mkfifo(tmp_path / "logs" / "deck.log")  # nobody reads: to open it for writing takes for ever
    with live_deck(tmp_path, DONE) as deck:
        deck.env |= {"PYTHONPATH": str(NETWORK), "GPUDECK_TEST_NETWORK": str(tmp_path / "logs")}
        engine = deck.start()
        with deck.client() as client:
            deck.until_states(client, good="succeeded", bad="failed")
        engine.kill()


def test_a_record_of_another_boot_names_nobody_who_runs_now(tmp_path: Path) -> None:
    with live_deck(tmp_path, DONE) as deck:
        engine = deck.start()
        with deck.client() as client:
            deck.until_states(client, good="succeeded", bad="failed")
            client.request("stop")
        engine.wait()
        for part in deck.state.glob("deck.db*"):
            part.unlink()
        (deck.state / "attempts" / "of-before").write_text(f"start 99999999.00 {os.getpid()}\n")
        lock = json.loads((deck.state / "lock").read_text())
        lock["machine"]["boot_id"] = "another"
        (deck.state / "lock").write_text(json.dumps(lock) + "\n")
        deck.start()
        assert deck.holder()
