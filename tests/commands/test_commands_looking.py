"""Looking at a deck, with an engine and without: the same output."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpudeck
from gpudeck.engine.core.selector import REASONS, STATES
from tests.commands.commands_rig import GATED, MIXED, Commanded, typed
from tests.e2e.decks import until
from tests.inside.commands import GPU_MEMORY_HINT
from tests.rigs.desk import Desk, Ends, at_desk, finished, typed_in

OFFLINE = "gpudeck: no engine runs this deck"
ENDS = {"good": Ends(out="fine\n"), "bad": Ends(3, err="oops\n")}


@pytest.fixture(scope="module")
def over(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The deck has run headless, and no engine is left. Only to be looked at."""
    return finished(tmp_path_factory.mktemp("over"), MIXED, ENDS)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commanded]:
    """The same, by true processes."""
    deck = Commanded(tmp_path_factory.mktemp("ran"))
    deck.write(MIXED)
    assert deck.run().code == 1
    yield deck
    deck.close()


def rows(folder: Path, *selectors: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(typed_in(folder, "ls", "--json", *selectors).out)}


@pytest.mark.parametrize("command", ["ls", "status"])
def test_without_colours_a_terminal_gets_none(ran: Commanded, command: str) -> None:
    with typed(ran, command) as terminal:
        terminal.finish()
        assert "\x1b[" in terminal.shown
    with typed(ran, command, "--no-color") as terminal:
        terminal.finish()
        assert "bad" in terminal.shown
        assert "\x1b[" not in terminal.shown


@pytest.mark.parametrize(
    "words", [("ls",), ("show", "bad"), ("explain", "bad"), ("ls", "--json", "b*", "state:failed")]
)
@at_desk(MIXED, ENDS)
async def test_without_an_engine_it_prints_what_it_prints_with_one(desk: Desk, words: tuple[str, ...]) -> None:
    assert await desk.run() == 1
    without = await desk.command(*words)
    await desk.start()
    with_one = await desk.command(*words)
    assert (with_one.out, with_one.err) == (without.out, "")
    assert OFFLINE in without.err


# -- as users type it -------------------------------------------------------------------------------------------------


def test_ls_is_a_plain_table_where_it_is_piped(ran: Commanded) -> None:
    lines = ran.command("ls").out.splitlines()
    assert lines[0].split() == ["task", "state", "gpu", "attempt", "time", "reason"]
    assert [line.split()[:2] for line in lines[1:]] == [["good", "succeeded"], ["bad", "failed"], ["behind", "blocked"]]


def test_ls_fits_the_terminal(deck: Commanded) -> None:
    deck.write(MIXED.replace('"behind"', f'"{"b" * 110}"'))
    with typed(deck, "ls", columns=60) as terminal:
        assert terminal.finish() == 0
        text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
    lines = [line for line in text.splitlines() if not line.startswith("gpudeck:")]
    assert max(map(len, lines)) <= 60


def test_status_says_how_the_deck_stands(ran: Commanded) -> None:
    done = ran.command("status")
    assert "3 tasks: 1 succeeded, 1 failed, 1 blocked" in done.out
    assert re.search(r"^  bad .* exit 3: oops$", done.out, re.MULTILINE)
    assert OFFLINE in done.err


def test_show_tells_everything_about_one_task(ran: Commanded) -> None:
    out = ran.command("show", "bad").out
    assert "command   echo oops >&2; exit 3" in out
    assert "attempt 1  exit 3: oops" in out
    assert "needed by behind" in out
    assert "retried" not in out


def test_explain_of_a_task_that_has_ended_says_that(ran: Commanded) -> None:
    assert "bad has failed (exit 3: oops)" in ran.command("explain", "bad").out


def test_a_reader_that_goes_away_is_no_error(ran: Commanded) -> None:
    assert ran.shell("gpudeck ls 2>/dev/null | head -n 1").err == ""


# -- of a run that is over --------------------------------------------------------------------------------------------


def test_ls_is_uncut_where_it_is_piped(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(MIXED.replace('"behind"', f'"{"b" * 110}"'))
    assert typed_in(tmp_path, "ls").out.splitlines()[-1].startswith("b" * 110)


def test_ls_json_has_a_row_with_all_fields_for_each_task_that_is_meant(over: Path) -> None:
    (row,) = rows(over, "state:failed").values()
    assert (row["name"], row["reason"], row["exit_code"], row["gone"]) == ("bad", "exit 3: oops", 3, False)


@pytest.mark.parametrize(
    ("selectors", "names"),
    [
        (("good", "b*"), ["good", "bad", "behind"]),
        (("b*", "state:failed"), ["bad"]),
        (("b* state:failed",), ["bad"]),
        (("state:failed,blocked", "-bad"), ["behind"]),
        (("-state:failed",), ["good", "behind"]),
    ],
)
@at_desk(MIXED, ENDS)
async def test_names_are_added_up_and_all_other_words_narrow(
    desk: Desk, selectors: tuple[str, ...], names: list[str]
) -> None:
    assert await desk.run() == 1
    assert list(await desk.rows(*selectors)) == names
    await desk.start()
    assert list(await desk.rows(*selectors)) == names


def test_the_page_of_commands_names_every_state_and_reason() -> None:
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    for kind, known in (("state", STATES), ("reason", REASONS)):
        row = page.partition(f"| `{kind}:` | ")[2].partition("|\n")[0]
        assert [word for word in known if not re.search(rf"\b{word.replace(' ', '-')}\b", row)] == []


def test_status_failed_gives_reason_log_and_last_lines(over: Path) -> None:
    out = typed_in(over, "status", "--failed").out
    assert "failed  bad  attempt 1  exit 3: oops" in out
    assert f"{over}/logs/bad/attempt-1.err" in out
    assert "  | oops" in out


@pytest.mark.parametrize("words", [("status", "--failed"), ("show", "big")])
@at_desk(
    '[deck]\ngpus = "sim:1"\n[[task]]\nname = "big"\ncommand = "false"\n[[task]]\nname = "bad"\ncommand = "false"\n',
    {"big": Ends(1, err="torch.OutOfMemoryError: CUDA out of memory.\n"), "bad": 3},
)
async def test_a_failure_is_told_with_what_may_be_done_about_it(desk: Desk, words: tuple[str, ...]) -> None:
    assert await desk.run() == 1
    assert f"  hint: {GPU_MEMORY_HINT}\n" in (await desk.command(*words)).out
    await desk.start()
    assert (await desk.command(*words)).out.count("  hint: ") == 1


def test_show_of_several_tasks_is_refused(over: Path) -> None:
    done = typed_in(over, "show", "*")
    assert (done.code, "3: good, bad, behind" in done.err) == (2, True)


def test_explain_names_what_a_task_waits_for(over: Path) -> None:
    assert "needs bad, which did not succeed" in typed_in(over, "explain", "behind").out


def test_without_an_engine_explain_says_what_starts_one(over: Path) -> None:
    assert "no engine runs this deck: `gpudeck start` starts one" in typed_in(over, "explain", "behind").out


QUEUED = """[deck]
gpus = "sim:1"
[[task]]
name = "t{n}"
command = "true {n}"
matrix.n = [1, 2]
[[task]]
name = "after"
command = "true"
needs = ["t2"]
"""


@at_desk(QUEUED)
async def test_explain_says_which_task_is_first_in_line(desk: Desk) -> None:
    await desk.start(purpose="start")
    await desk.until_state("t1", "running")
    assert (await desk.command("add", "--next", "--name", "urgent", "--", "true")).code == 0
    assert (await desk.command("explain", "urgent")).out.startswith("urgent is queued, first in line:\n")
    assert (await desk.command("explain", "t2")).out.startswith("t2 is queued:\n")
    assert (await desk.command("add", "--next", "--name", "more", "--", "true")).code == 0
    assert (await desk.command("explain", "urgent")).out.startswith("urgent is queued:\n")


@at_desk(QUEUED)
async def test_show_says_once_that_a_task_waits_for_another(desk: Desk) -> None:
    assert "  waits for t2\n" in (await desk.command("show", "after")).out
    await desk.start(purpose="start")
    assert "  waits for t2\n" in (await desk.command("show", "after")).out


@at_desk(QUEUED)
async def test_show_of_a_task_that_runs_on_without_the_file_says_that_it_waits_for_nothing(desk: Desk) -> None:
    await desk.start(purpose="start")
    await desk.until_state("t1", "running")
    desk.write(QUEUED.replace("[1, 2]", "[2]"))
    assert (await desk.command("apply", "-y")).code == 0
    shown = (await desk.command("show", "t1")).out
    assert shown.startswith("t1 running\n")
    assert "waits for" not in shown


def test_explain_json_of_a_task_that_has_ended_has_no_obstacles(over: Path) -> None:
    assert json.loads(typed_in(over, "explain", "bad", "--json").out) == [
        {"name": "bad", "state": "failed", "obstacles": []}
    ]


@at_desk(
    """
    [deck]
    gpus = "sim:1"
    [vars]
    bs = 64
    [[task]]
    name = "big"
    command = "test {bs} -eq 16"
    on_oom = [{ vars = { bs = 32 } }, { vars = { bs = 16 }, env = { LESS = "1" } }]
    """,
    {"big": Ends(1, err="CUDA out of memory\n")},
)
async def test_show_tells_which_rung_of_on_oom_each_attempt_ran_with(desk: Desk) -> None:
    await desk.run()
    found = await desk.told("show", "big")
    assert [(end["rung"], end["rung_changes"]) for end in found["attempts"]] == [
        (0, []), (1, ["64 → 32"]), (2, ["64 → 16", "LESS=1"]),
    ]  # fmt: skip
    out = (await desk.command("show", "big")).out
    assert "  on_oom rung 1: 64 → 32\n" in out
    assert "  on_oom rung 2: 64 → 16  LESS=1\n" in out
    assert "rung 0" not in out


@at_desk(MIXED, ENDS)
async def test_a_deck_whose_file_is_broken_can_still_be_looked_at(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.write(MIXED + "nonsense = 1\n")
    done = await desk.command("ls", "bad")
    assert (done.code, "exit 3: oops" in done.out, "nonsense" in done.err) == (0, True, True)


# -- of what runs -----------------------------------------------------------------------------------------------------


@at_desk(GATED)
async def test_status_json_tells_the_engine_and_counts(desk: Desk) -> None:
    await desk.start()
    found = await desk.told("status")
    assert (found["engine"]["pid"], found["engine"]["mode"]) == (os.getpid(), "detached")
    assert (found["counts"]["total"], found["simulated"]) == (3, True)
    assert [gpu["index"] for gpu in found["gpus"]] == [0, 1]


def test_a_task_that_runs_on_without_an_engine_is_shown_so_and_so_is_one_that_has_ended(deck: Commanded) -> None:
    gate = deck.go_gated()
    deck.until_state("wait-1", "running")
    assert deck.command("stop").code == 0
    done = deck.command("ls", "wait-1")
    assert "runs on without an engine" in done.out
    assert "2 tasks of it run on" in done.err
    gate.let(3)
    until(lambda: "has ended; the next engine takes its result in" in deck.command("ls", "wait-1").out)
    row = deck.rows("wait-1")["wait-1"]
    assert (row["started"], row["duration_s"] >= 0) == (None, True)  # its time does not go on


@at_desk(GATED)
async def test_an_engine_of_another_version_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.start()
    monkeypatch.setattr("gpudeck.engine.client.place.__version__", "99.1")
    done = await desk.command("status")
    assert (done.code, f"engine {os.getpid()} is gpudeck {gpudeck.__version__}" in done.err) == (0, True)
    assert "`gpudeck stop`, then start anew" in done.err


# -- where the file is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["status"], ["ls"], ["show", "bad"], ["explain", "bad"], ["wait"], ["logs", "bad"]])
def test_looking_at_a_deck_that_never_ran_makes_nothing(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "tasks.toml").write_text(MIXED)
    assert typed_in(tmp_path, *words).code in (0, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["tasks.toml"]


def test_the_file_may_be_named_before_and_behind_the_command(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(MIXED)
    outs = [
        typed_in(tmp_path, "-f", "other.toml", "ls").out,
        typed_in(tmp_path, "ls", "-f", "other.toml").out,
        typed_in(tmp_path, "--file=other.toml", "ls").out,
        typed_in(tmp_path, "ls", env={"GPUDECK_FILE": "other.toml"}).out,
    ]
    assert len(set(outs)) == 1
    assert "behind" in outs[0]


def test_the_file_is_found_in_a_parent_folder(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(MIXED)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert "behind" in typed_in(below, "ls").out
