"""Looking at a deck, with an engine and without: the same output."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from gpudeck.engine.core.selector import REASONS, STATES
from gpudeck.engine.logs.signs import GPU_MEMORY_HINT
from tests.commands.commands_rig import GATED, MIXED, Commanded, typed

OFFLINE = "gpudeck: no engine runs this deck"


def finished(deck: Commanded) -> None:
    """The deck has run headless, and no engine is left."""
    deck.write(MIXED)
    assert deck.run().code == 1


def test_ls_without_an_engine_prints_what_it_prints_with_one(deck: Commanded) -> None:
    finished(deck)
    without = deck.command("ls")
    assert deck.go().code == 0
    assert deck.command("ls").out == without.out
    assert OFFLINE in without.err


def test_ls_is_plain_and_uncut_where_it_is_piped(deck: Commanded) -> None:
    deck.write(MIXED.replace('"behind"', f'"{"b" * 110}"'))
    lines = deck.command("ls").out.splitlines()
    assert lines[0].split() == ["task", "state", "gpu", "attempt", "time", "reason"]
    assert lines[-1].startswith("b" * 110)


def test_ls_fits_the_terminal(deck: Commanded) -> None:
    deck.write(MIXED.replace('"behind"', f'"{"b" * 110}"'))
    with typed(deck, "ls", columns=60) as terminal:
        assert terminal.finish() == 0
        text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
    rows = [line for line in text.splitlines() if not line.startswith("gpudeck:")]
    assert max(map(len, rows)) <= 60


def test_ls_json_has_a_row_with_all_fields_for_each_task_that_is_meant(deck: Commanded) -> None:
    finished(deck)
    rows = deck.rows("state:failed")
    assert list(rows) == ["bad"]
    assert (rows["bad"]["reason"], rows["bad"]["exit_code"], rows["bad"]["gone"]) == ("exit 3: oops", 3, False)


def test_selectors_mean_what_any_of_them_means_and_words_in_one_must_all_hold(deck: Commanded) -> None:
    finished(deck)
    assert list(deck.rows("b*", "state:succeeded")) == ["good", "bad", "behind"]
    assert list(deck.rows("b* state:failed")) == ["bad"]
    assert deck.go().code == 0
    assert list(deck.rows("b*", "state:succeeded")) == ["good", "bad", "behind"]
    assert list(deck.rows("b* state:failed")) == ["bad"]


def test_the_page_of_commands_names_every_state_and_reason() -> None:
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    for kind, known in (("state", STATES), ("reason", REASONS)):
        row = page.partition(f"| `{kind}:` | ")[2].partition("|\n")[0]
        assert [word for word in known if not re.search(rf"\b{word.replace(' ', '-')}\b", row)] == []


def test_a_selector_that_means_nothing_is_refused(deck: Commanded) -> None:
    finished(deck)
    assert deck.command("ls", "bat").code == 2
    assert deck.go().code == 0
    done = deck.command("ls", "bat")
    assert (done.code, "did you mean bad?" in done.err) == (2, True)


def test_status_says_how_the_deck_stands(deck: Commanded) -> None:
    finished(deck)
    done = deck.command("status")
    assert "3 tasks: 1 succeeded, 1 failed, 1 blocked" in done.out
    assert re.search(r"^  bad .* exit 3: oops$", done.out, re.MULTILINE)
    assert OFFLINE in done.err


def test_status_failed_gives_reason_log_and_last_lines(deck: Commanded) -> None:
    finished(deck)
    out = deck.command("status", "--failed").out
    assert "failed  bad  attempt 1  exit 3: oops" in out
    assert f"{deck.folder}/logs/bad/attempt-1.err" in out
    assert "  | oops" in out


@pytest.mark.parametrize("words", [("status", "--failed"), ("show", "big")])
def test_a_failure_is_told_with_what_may_be_done_about_it(deck: Commanded, words: tuple[str, ...]) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "big"
        command = "echo 'torch.OutOfMemoryError: CUDA out of memory.' >&2; exit 1"
        [[task]]
        name = "bad"
        command = "exit 3"
    """)
    assert deck.run().code == 1
    assert f"  hint: {GPU_MEMORY_HINT}\n" in deck.command(*words).out
    assert deck.go().code == 0
    assert deck.command(*words).out.count("  hint: ") == 1


def test_status_json_tells_the_engine_and_counts(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    found = json.loads(deck.command("status", "--json").out)
    assert found["engine"]["pid"] == deck.engine_pid()
    assert found["engine"]["mode"] == "detached"
    assert (found["counts"]["total"], found["simulated"]) == (3, True)
    assert [gpu["index"] for gpu in found["gpus"]] == [0, 1]
    gate.let(3)


def test_status_json_without_an_engine_says_so(deck: Commanded) -> None:
    finished(deck)
    found = json.loads(deck.command("status", "--json").out)
    assert found["engine"] is None
    assert [row["name"] for row in found["failed"]] == ["bad"]


def test_show_tells_everything_about_one_task(deck: Commanded) -> None:
    finished(deck)
    out = deck.command("show", "bad").out
    assert "command   echo oops >&2; exit 3" in out
    assert "attempt 1  exit 3: oops" in out
    assert "needed by behind" in out


def test_show_tells_which_rung_of_on_oom_each_attempt_ran_with(deck: Commanded) -> None:
    deck.write(
        """
        [deck]
        gpus = "sim:1"
        [vars]
        bs = 64
        [[task]]
        name = "big"
        command = "test {bs} -eq 16 || { echo CUDA out of memory >&2; exit 1; }"
        on_oom = [{ vars = { bs = 32 } }, { vars = { bs = 16 }, env = { LESS = "1" } }]
        """
    )
    assert deck.run().code == 0
    found = json.loads(deck.command("show", "big", "--json").out)
    assert [(end["rung"], end["rung_changes"]) for end in found["attempts"]] == [
        (0, []), (1, ["64 → 32"]), (2, ["64 → 16", "LESS=1"]),
    ]  # fmt: skip
    out = deck.command("show", "big").out
    assert "  on_oom rung 1: 64 → 32\n" in out
    assert "  on_oom rung 2: 64 → 16  LESS=1\n" in out
    assert "rung 0" not in out


def test_show_without_an_engine_prints_what_it_prints_with_one(deck: Commanded) -> None:
    finished(deck)
    without = deck.command("show", "bad").out
    assert deck.go().code == 0
    assert deck.command("show", "bad").out == without


def test_show_of_several_tasks_is_refused(deck: Commanded) -> None:
    finished(deck)
    done = deck.command("show", "*")
    assert (done.code, "3: good, bad, behind" in done.err) == (2, True)


def test_explain_names_what_a_task_waits_for(deck: Commanded) -> None:
    finished(deck)
    assert deck.go().code == 0
    assert "needs bad, which did not succeed" in deck.command("explain", "behind").out


def test_explain_of_a_queued_task_names_every_gpu(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    deck.until_state("wait-2", "running")
    out = deck.command("explain", "wait-3").out
    assert "GPU 0: 1 of 1 slots taken" in out
    assert "GPU 1: 1 of 1 slots taken" in out
    gate.let(3)


def test_explain_of_a_task_that_has_ended_says_that(deck: Commanded) -> None:
    finished(deck)
    assert "bad has failed (exit 3: oops)" in deck.command("explain", "bad").out
    assert json.loads(deck.command("explain", "bad", "--json").out) == [
        {"name": "bad", "state": "failed", "obstacles": []}
    ]


def test_looking_at_a_deck_that_never_ran_makes_nothing(deck: Commanded) -> None:
    deck.write(MIXED)
    for words in (["status"], ["ls"], ["show", "bad"], ["explain", "bad"], ["wait"], ["logs", "bad"]):
        assert deck.command(*words).code in (0, 1)
    assert sorted(path.name for path in deck.folder.iterdir()) == ["tasks.toml"]


def test_the_file_may_be_named_before_and_behind_the_command(deck: Commanded) -> None:
    deck.write(MIXED, "other.toml")
    outs = [
        deck.command("-f", "other.toml", "ls").out,
        deck.command("ls", "-f", "other.toml").out,
        deck.command("--file=other.toml", "ls").out,
        deck.command("ls", env={"GPUDECK_FILE": "other.toml"}).out,
    ]
    assert len(set(outs)) == 1
    assert "behind" in outs[0]


def test_the_file_is_found_in_a_parent_folder(deck: Commanded) -> None:
    deck.write(MIXED)
    below = deck.folder / "a" / "b"
    below.mkdir(parents=True)
    inner = Commanded(below)
    assert "behind" in inner.command("ls").out


def test_a_task_that_runs_on_without_an_engine_is_shown_so(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    deck.until_state("wait-1", "running")
    assert deck.command("stop").code == 0
    done = deck.command("ls", "wait-1")
    assert "runs on without an engine" in done.out
    assert "2 tasks of it run on" in done.err
    gate.let(3)


def test_a_deck_whose_file_is_broken_can_still_be_looked_at(deck: Commanded) -> None:
    finished(deck)
    deck.write(MIXED + "nonsense = 1\n")
    done = deck.command("ls", "bad")
    assert (done.code, "exit 3: oops" in done.out, "nonsense" in done.err) == (0, True, True)


def test_a_reader_that_goes_away_is_no_error(deck: Commanded) -> None:
    finished(deck)
    assert deck.shell("gpudeck ls 2>/dev/null | head -n 1").err == ""


def test_an_engine_of_another_version_is_named(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    older = (
        "import gpudeck, sys; gpudeck.__version__ = '99.1'\n"
        "from gpudeck.tui.cli import main; sys.exit(main(['status']))"
    )
    done = deck.shell(f"{sys.executable} -c {shlex.quote(older)}")
    assert (done.code, f"engine {deck.engine_pid()} is gpudeck" in done.err) == (0, True)
    assert "`gpudeck stop`, then start anew" in done.err
    gate.let(3)
