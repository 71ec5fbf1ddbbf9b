"""What a headless run prints and writes: lines, JSON, JUnit, GitHub's commands, exit codes."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from tests.e2e.decks import Deck, Ran, deck_in

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "dev" / "json-lines.schema.json").read_text())

MIXED = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "good"
    command = "echo fine"
    [[task]]
    name = "group/bad"
    command = ["python3", "-c", "raise ValueError('bad rate')"]
    [[task]]
    name = "flaky"
    command = "test $GPUDECK_ATTEMPT = 2"
    retries = 1
    backoff = "10ms"
    [[task]]
    name = "cpu"
    gpus = 0
    command = "true"
    [[task]]
    name = "blocked"
    needs = ["group/bad"]
    command = "true"
"""
GOOD = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "good"
    command = "echo fine"
"""


def text(deck: Deck, *options: str, **more: dict[str, str]) -> Ran:
    return deck.command("--headless", "tasks.toml", *options, **more)


def test_a_run_tells_each_start_and_end_in_a_line(deck: Deck) -> None:
    deck.write(MIXED)
    out = text(deck).out
    assert re.search(r"\] SIM \d  start good  attempt 1  logs/good/attempt-1\.log", out)
    assert re.search(r"\] SIM \d  ok    good  attempt 1  \d+s", out)
    assert re.search(r"\] cpu    ok    cpu  attempt 1", out)
    assert re.search(r"\] SIM \d  fail  group/bad  attempt 1 .*exit 1: ValueError: bad rate", out)


def test_every_json_line_is_as_documented(deck: Deck) -> None:
    deck.write(MIXED)
    events = deck.run("--check-interval", "0.05").events
    for event in events:
        jsonschema.validate(event, SCHEMA, jsonschema.Draft202012Validator)
    assert events[0]["event"] == "deck_opened"
    counts = events[0]["counts"]
    assert {state: number for state, number in counts.items() if number} == {
        "total": counts["total"],
        "waiting": counts["total"],
    }
    assert events[-1]["event"] == "run_finished"


def test_the_counts_at_the_beginning_of_every_run_add_up(deck: Deck) -> None:
    deck.write(MIXED)
    for _ in range(2):
        counts = deck.run().events[0]["counts"]
        assert (counts["total"], sum(counts.values())) == (5, 10)


def test_junit_has_a_testcase_for_each_task(deck: Deck) -> None:
    deck.write(MIXED)
    deck.run("--junit", "report.xml")
    root = ElementTree.parse(deck.folder / "report.xml").getroot()
    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert set(cases) == {"good", "group/bad", "flaky", "cpu", "blocked"}
    assert "failure" in cases["group/bad"]
    assert "skipped" in cases["blocked"]
    assert "failure" not in cases["good"]


def test_in_github_actions_failures_become_annotations(deck: Deck) -> None:
    deck.write(MIXED)
    summary = deck.folder / "summary.md"
    ran = text(deck, env={"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)})
    assert re.search(r"^::error .*group/bad", ran.out, re.MULTILINE)
    assert "::group::" in ran.out
    assert "group/bad" in summary.read_text()


@pytest.mark.parametrize(
    ("toml", "options", "code"),
    [
        (GOOD, [], 0),
        (MIXED, [], 1),
        (GOOD, ["--no-such-option"], 2),
        (GOOD, ["--set", "novalue"], 2),
        (GOOD, ["--only", "nothing-like-it"], 2),
        (GOOD, ["--profile", "none"], 2),
        (GOOD + "[[task]]\nname = 'x'\ncomand = 'true'\n", [], 2),
        ("[[task]\n", [], 2),
        (GOOD.replace('"sim:1"', '"all"') + "[profile.g]\ndeck = { no_gpu = 'fail' }\n", ["--profile", "g"], 3),
    ],
)
def test_exit_codes_say_whose_turn_it_is(deck: Deck, toml: str, options: list[str], code: int) -> None:
    deck.write(toml)
    ran = text(deck, *options)
    assert ran.code == code, ran.out + ran.err
    assert "Traceback (most recent call last)" not in ran.err


def test_neither_torch_nor_textual_is_imported(deck: Deck) -> None:
    deck.write(GOOD)
    err = text(deck, env={"PYTHONPROFILEIMPORTTIME": "1"}).err
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in err.splitlines()}
    assert "asyncio" in imported
    assert not imported & {"torch", "textual", "rich", "numpy", "pydantic", "watchfiles"}


HOSTILE = r"""
import os, sys
out = sys.stdout.buffer
out.write(b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\x9b5n\n")
out.write(b"x" * 10_000_000 + b"\n")
out.write(b"".join(b"\r%d%%|#####| %d/100000" % (i // 1000, i) for i in range(100_000)))
out.write(bytes(range(256)) * 400)
out.flush()
sys.stderr.buffer.write(b"\x1b[31mValueError: \x1b]8;;http://x\x07link\x1b]8;;\x07 \x1b[5n\xff\xfe\n")
sys.stderr.buffer.write(b"y" * 10_000_000)
sys.exit(1)
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deck, Ran]]:
    with deck_in(tmp_path_factory.mktemp("hostile")) as deck:
        deck.write(HOSTILE, "hostile.py")
        deck.write("""
            [deck]
            gpus = "sim:1"
            [[task]]
            name = "a/b/c"
            command = ["python3", "hostile.py"]
        """)
        yield deck, text(deck)


def test_what_tasks_write_never_reaches_the_terminal_raw(hostile: tuple[Deck, Ran]) -> None:
    _, ran = hostile
    assert ran.code == 1
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", ran.out)
    assert max(map(len, ran.out.splitlines())) < 5000


def test_a_log_is_exactly_what_the_task_wrote(hostile: tuple[Deck, Ran]) -> None:
    log = (hostile[0].folder / "logs/a/b/c/attempt-1.log").read_bytes()
    assert log.startswith(b"\x1b]0;owned\x07")
    assert log.endswith(bytes(range(256)))
    assert len(log) > 12_000_000


def test_the_record_beside_a_hostile_log_is_json(hostile: tuple[Deck, Ran]) -> None:
    assert hostile[0].record("a/b/c")["end"]["exit_code"] == 1


@pytest.mark.parametrize("name", ["logs", ".gpudeck"])
def test_a_file_where_a_folder_is_needed_is_said(deck: Deck, name: str) -> None:
    deck.write(GOOD)
    (deck.folder / name).write_text("mine")
    ran = text(deck)
    assert ran.code in (2, 3)
    assert str(deck.folder / name) in ran.err
    assert "Traceback" not in ran.err
    assert deck.text(name) == "mine"


def test_ten_fast_failures_of_an_entry_in_a_row_are_said_once(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:2"
        [[task]]
        name = "t{i}"
        matrix.i = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
        command = "exit 1"
    """)
    assert deck.run().notes.count("the last 10 attempts of t{i} failed within a minute each") == 1
