"""Decks with a [notify] table, run as users run them: a real command, and a real server behind apprise's json://."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.decks import Deck, lives, until
from tests.fakes.live_deck import live_deck
from tests.notify.notify_rig import Receiver, receiver

HOOK = 'command = "cat >> told"\n'
BAD = '[[task]]\nname = "bad"\ncommand = "echo ValueError: no rate >&2; exit 3"\n'
GOOD = '[[task]]\nname = "good"\ncommand = "true"\n'
SIM = '[deck]\nname = "demo"\ngpus = "sim:2"\n'


@pytest.fixture
def server() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


def told(folder: Path) -> list[dict[str, Any]]:
    """The messages that the command of HOOK got."""
    path = folder / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def events(folder: Path) -> list[tuple[str, str]]:
    return [(event["event"], event["task"]) for message in told(folder) for event in message["events"]]


def test_a_command_is_told_of_a_failure_with_its_log_and_the_lines_that_say_why(deck: Deck):
    deck.write(SIM + "[notify]\n" + HOOK + BAD)
    deck.run()
    found = [event for message in told(deck.folder) for event in message["events"] if event["event"] == "failure"]
    assert [(one["task"], one["attempt"], one["digest"]) for one in found] == [("bad", 1, ["ValueError: no rate"])]
    assert found[0]["log"] == str(deck.folder / "logs/bad/attempt-1.err")


def test_a_command_finds_the_deck_and_the_events_in_its_environment(deck: Deck):
    deck.write(SIM + "[notify]\ncommand = 'echo $GPUDECK_DECK $GPUDECK_EVENTS $GPUDECK_LEVEL $PWD > told'\n" + GOOD)
    deck.run()
    assert (deck.folder / "told").read_text() == f"demo end success {deck.folder}\n"


def test_the_end_of_a_deck_is_told_before_the_engine_is_gone(deck: Deck, server: Receiver):
    deck.write(SIM + f'[notify]\nurls = ["{server.url}"]\n' + GOOD)
    deck.run()
    assert [one["title"].partition(" after")[0] for one in server.got] == ["demo: done"]
    assert server.got[0]["type"] == "success"


def test_a_round_that_is_over_is_told(deck: Deck):
    deck.write(SIM + "[notify]\n" + HOOK + GOOD + '[[task]]\nname = "late"\nround = 1\ncommand = "echo 1"\n')
    deck.run()
    texts = [event["text"] for message in told(deck.folder) for event in message["events"] if event["event"] == "round"]
    assert texts == ["round 0 is over: 1 task"]


def test_only_what_on_names_is_told(deck: Deck):
    deck.write(SIM + '[notify]\non = ["halt"]\n' + HOOK + BAD)
    deck.run("--fail-fast")
    assert {kind for kind, _ in events(deck.folder)} == {"halt"}


def test_a_storm_of_failures_becomes_few_messages(deck: Deck):
    deck.write(SIM + "[notify]\n" + HOOK + '[[task]]\nname = "t{i}"\nmatrix.i = [1, 2, 3, 4, 5, 6]\n'
               'shards = 8\ngpus = 0\ncommand = "exit {i}{shard}1"\n')  # fmt: skip
    deck.run()
    messages = told(deck.folder)
    assert len(messages) <= 2
    assert sum(message["counts"].get("failure", 0) for message in messages) == 48
    assert max(len(message["body"].splitlines()) for message in messages) < 120


def test_a_run_in_which_nothing_ran_is_not_told(deck: Deck):
    deck.write(SIM + "[notify]\n" + HOOK + GOOD)
    deck.run()
    deck.run()
    assert events(deck.folder) == [("end", "")]


def test_a_key_in_a_url_appears_nowhere(deck: Deck, server: Receiver):
    server.status = 500
    deck.write(SIM + f'[notify]\nurls = ["{server.url}", "json://user:hush-hush-pass@127.0.0.1:9/x"]\n' + BAD + GOOD)
    ran = [deck.run("-v"), deck.command("check"), deck.command("plan"), deck.command("notify"),
           deck.command("show", "good")]  # fmt: skip
    said = "".join(one.out + one.err for one in ran)
    for path in (deck.folder / "logs", deck.folder / ".gpudeck"):
        files = [file for file in path.rglob("*") if file.is_file() and file.name != "taken.toml"]  # the file itself
        said += "".join(file.read_text("utf-8", "replace") for file in files)
    assert "not sent to URL 1 (json)" in said
    assert "hush" not in said


def test_what_cannot_be_sent_is_said_once(deck: Deck):
    deck.write(SIM + '[notify]\nevery = "0s"\ncommand = "echo no route >&2; exit 4"\n' + "".join(
        f'[[task]]\nname = "t{n}"\nround = {n}\nround_barrier = "ended"\ncommand = "sleep 0.2; exit {n + 1}"\n'
        for n in range(3)))  # fmt: skip
    ran = deck.run()
    log = (deck.folder / "logs/deck.log").read_text()
    assert log.count("notify: not sent to the command: exit 4: no route") == 1, ran.out


def test_a_command_that_hangs_is_ended_and_holds_up_no_task(deck: Deck):
    deck.write(SIM + "[notify]\nevery = 0\ntimeout = \"0.5s\"\ncommand = 'echo $$ > pid; sleep 600 & sleep 600'\n" + BAD
               + '[[task]]\nname = "late"\nround = 1\nround_barrier = "ended"\ncommand = "echo late"\n')  # fmt: skip
    ran = deck.run()
    assert ran.states["late"] == "succeeded"
    assert not lives(int((deck.folder / "pid").read_text()))


def test_a_server_that_hangs_holds_up_the_end_for_its_time_limit_only(deck: Deck, server: Receiver):
    server.hangs = True
    deck.write(SIM + f'[notify]\nurls = ["{server.url}"]\ntimeout = "0.5s"\n' + GOOD)
    ran = deck.run()
    assert ran.code == 0
    assert "not sent to URL 1 (json): no answer within 0.5 s" in (deck.folder / "logs/deck.log").read_text()


def test_a_variable_keeps_the_url_out_of_the_file_and_one_that_is_not_set_is_told(deck: Deck, server: Receiver):
    deck.write(SIM + '[notify]\nurls = ["{env.DECK_URL}"]\n' + GOOD)
    assert "number 1 has {env.DECK_URL}, which is not set" in deck.command("check").out
    deck.run(env={"DECK_URL": server.url})
    assert len(server.got) == 1


def test_a_test_message_says_for_each_target_whether_it_went_out(deck: Deck, server: Receiver):
    deck.write(SIM + f'[notify]\nurls = ["{server.url}", "json://127.0.0.1:9/x"]\n' + HOOK + GOOD)
    ran = deck.command("notify", "--test")
    assert ran.code == 1
    assert ran.out.splitlines()[:2] == ["the command: sent", "URL 1 (json): sent"]
    assert ran.out.splitlines()[2].startswith("URL 2 (json): A Connection error")


def test_the_command_of_a_test_message_runs_in_the_task_files_folder(deck: Deck):
    deck.write(SIM + '[notify]\ncommand = "cat >got; pwd >where"\n' + GOOD)
    assert deck.command("notify", "--test").code == 0
    assert json.loads((deck.folder / "got").read_text())["file"] == str(deck.folder / "tasks.toml")
    assert (deck.folder / "where").read_text().strip() == str(deck.folder)


def test_an_engine_that_was_killed_leaves_what_it_had_not_told_to_the_next_one_and_that_tells_it_once(tmp_path: Path):
    text = SIM + '[notify]\nevery = "1h"\n' + HOOK + BAD.replace("bad", "first") + (
        '[[task]]\nname = "gate"\ngpus = 0\ncommand = "while [ ! -e go ]; do sleep 0.05; done"\n'
        '[[task]]\nname = "second"\ngpus = 0\ncommand = "while [ ! -e fail ]; do sleep 0.05; done; exit 5"\n'
    )  # fmt: skip
    with live_deck(tmp_path, text) as deck:
        engine = deck.start()
        until(lambda: ("failure", "first") in events(tmp_path))
        (tmp_path / "fail").touch()
        with deck.client() as client:
            deck.until_states(client, second="failed")
        os.kill(engine.pid, signal.SIGKILL)
        engine.wait()
        deck.start()
        until(lambda: ("failure", "second") in events(tmp_path))
        (tmp_path / "go").touch()
        with deck.client() as client:
            deck.until_states(client, gate="succeeded")
            client.request("stop", tasks=False)
        until(lambda: any(kind == "end" for kind, _ in events(tmp_path)))
        assert sorted(events(tmp_path)) == [("end", ""), ("failure", "first"), ("failure", "second")]


def test_a_table_that_is_added_to_a_deck_that_runs_is_taken_up(tmp_path: Path):
    text = (
        SIM
        + 'reload = "auto"\n'
        + '[[task]]\nname = "late"\ncommand = "while [ ! -e go ]; do sleep 0.05; done; exit 6"\n'
    )
    with live_deck(tmp_path, text) as deck:
        deck.start()
        with deck.client() as client:
            deck.until_states(client, late="running")
            deck.write(text.replace("[[task]]", f"[notify]\n{HOOK}[[task]]"))
            client.request("apply")
            (tmp_path / "go").touch()
            until(lambda: ("failure", "late") in events(tmp_path))
