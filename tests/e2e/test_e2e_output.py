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

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "json-lines.schema.json").read_text())
LINE = re.compile(r"\[\d\d:\d\d:\d\d\] (gpu|SIM|cpu|deck|-) ")

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
    assert re.search(r"\] SIM \d  ok    good  attempt 1  \d\d:\d\d:\d\d", out)
    assert re.search(r"\] cpu    ok    cpu  attempt 1", out)
    assert re.search(r"\] SIM \d  fail  group/bad  attempt 1 .*exit 1: ValueError: bad rate", out)


def test_the_summary_shows_the_failures_reason_and_its_last_lines(deck: Deck) -> None:
    deck.write(MIXED)
    end = text(deck).out.partition("blocked  ")[2]
    assert "ValueError: bad rate" in end
    assert "Traceback" in end


def test_deck_log_has_the_lines_for_people_whatever_is_printed(deck: Deck) -> None:
    deck.write(MIXED)
    deck.run("-q")
    assert LINE.match(deck.lines("logs/deck.log")[0])
    assert "start good" in deck.text("logs/deck.log")


def test_quiet_prints_failures_and_the_summary_only(deck: Deck) -> None:
    deck.write(MIXED)
    out = text(deck, "-q").out
    assert "start good" not in out
    assert "fail  group/bad" in out


def test_quiet_and_good_is_short(deck: Deck) -> None:
    deck.write(GOOD)
    assert len(text(deck, "-q").out.splitlines()) <= 3


def test_nothing_is_coloured_where_nobody_looks(deck: Deck) -> None:
    deck.write(MIXED)
    assert "\x1b" not in text(deck).out


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


def test_the_counts_at_the_end_add_up(deck: Deck) -> None:
    deck.write(MIXED)
    counts = deck.run().events[-1]["counts"]
    assert counts["total"] == 5
    assert {name: count for name, count in counts.items() if count and name != "total"} == {
        "succeeded": 3,
        "failed": 1,
        "blocked": 1,
    }


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


def test_a_task_cannot_give_commands_to_github(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "t"
        command = "echo '::error::gotcha' >&2; echo '::set-output name=a::b' >&2; exit 1"
    """)
    ran = text(deck, env={"GITHUB_ACTIONS": "true"})
    assert not re.search(r"^::(error::gotcha|set-output)", ran.out, re.MULTILINE)


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


def test_mistakes_in_the_file_are_told_at_once_and_nothing_runs(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "a"
        comand = "true"
        [[task]]
        name = "b"
        command = "touch ran"
        gpus = -1
    """)
    ran = text(deck)
    assert ran.code == 2
    assert "tasks.toml:6:" in ran.err
    assert "did you mean command?" in ran.err
    assert "gpus must be at least 0, got -1" in ran.err
    assert not (deck.folder / "ran").exists()


def test_no_task_file_tells_what_to_do(deck: Deck) -> None:
    ran = deck.command("--headless")
    assert ran.code == 2
    assert "no tasks.toml here or above" in ran.err


def test_halting_after_a_failure_leaves_the_rest(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "t{i}"
        matrix.i = [0, 1, 2]
        command = "test {i} != 1"
    """)
    ran = deck.run("--fail-fast")
    assert ran.code == 1
    assert ran.states["t0"] == "succeeded"
    assert ran.states["t1"] == "failed"
    assert ran.started == ["t0", "t1"]
    assert ran.rows["t2"]["reason"] == "halted: t1 failed"


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


def test_the_command_lists_what_it_would_do_without_doing_it(deck: Deck) -> None:
    deck.write(MIXED)
    ran = deck.command("plan")
    assert ran.code == 0
    assert "group/bad" in ran.out
    assert not (deck.folder / "logs").exists()


def test_check_finds_nothing_wrong_with_a_good_deck(deck: Deck) -> None:
    deck.write(MIXED)
    assert deck.command("check").code == 0


def test_metacharacters_in_a_list_command_reach_the_program(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "t"
        command = ["python3", "-c", "import sys; print(sys.argv[1:])", "a b", "$HOME", "*", "'q'", "{{x}}", "é"]
    """)
    deck.run()
    assert deck.lines("logs/t/attempt-1.log") == ["['a b', '$HOME', '*', \"'q'\", '{x}', 'é']"]


def test_a_variable_that_a_task_requires_is_asked_for_before_anything_starts(deck: Deck) -> None:
    deck.write(
        GOOD
        + """
    [[task]]
    name = "hub"
    command = "echo $HUB_TOKEN"
    env_required = ["HUB_TOKEN"]
    """
    )
    ran = text(deck)
    assert ran.code == 2
    assert "HUB_TOKEN" in ran.err
    assert text(deck, env={"HUB_TOKEN": "secret"}).code == 0


def test_the_value_of_a_secret_is_in_no_record(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "hub"
        env = { HUB_TOKEN = "s3cr3t-value" }
        command = "true"
    """)
    text(deck, "-v")
    assert "s3cr3t" not in deck.text("logs/hub/attempt-1.json")
    assert "s3cr3t" not in deck.text("logs/deck.log")


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
