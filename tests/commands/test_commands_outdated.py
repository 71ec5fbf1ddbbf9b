"""Results of tasks that the file has changed since, or that build on what is newer: `table` and `show` say so."""

from __future__ import annotations

import json

from tests.commands.commands_rig import Commanded

SWEEP = """
    [deck]
    gpus = "none"
    [[task]]
    name = "m1-s{seed}"
    gpus = 0
    command = "echo acc=0.{seed}; true {seed}"
    matrix.seed = [1, 2, 3]
    metrics.acc = { regex = 'acc=([0-9.]+)' }
    [[task]]
    name = "gather"
    needs = ["m1-*"]
    gpus = 0
    command = ["echo", "acc=0.5", "of all"]
    metrics.acc = { regex = 'acc=([0-9.]+)' }
"""


def edit(deck: Commanded, old: str, new: str) -> None:
    text = deck.text("tasks.toml")
    assert old in text
    deck.write(text.replace(old, new))


def again(deck: Commanded, task: str) -> None:
    assert deck.command("retry", task, "-y").code == 0
    assert deck.command("wait").code == 0
    assert deck.command("stop").code == 0


def warned(deck: Commanded, *words: str) -> list[str]:
    """What `table` says beside the table."""
    return [line for line in deck.command("table", *words).err.splitlines() if "results" in line]


def test_a_table_says_which_results_are_not_of_what_the_file_says_now(deck: Commanded) -> None:
    deck.write(SWEEP)
    assert deck.run().code == 0
    before = deck.command("table", "--over", "seed", "m1-*")
    edit(deck, "true", ":")
    after = deck.command("table", "--over", "seed", "m1-*")
    assert (before.err, after.out) == ("", before.out)
    assert after.err == (
        "gpudeck: of 3 results 3 are not of what the file says now (changed: m1-s1, m1-s2, m1-s3): "
        "`gpudeck retry state:changed` runs them again, `gpudeck accept state:changed` keeps their results\n"
    )
    assert warned(deck, "gather") == []


def test_a_table_says_which_results_build_on_newer_ones(deck: Commanded) -> None:
    deck.write(SWEEP)
    assert deck.run().code == 0
    again(deck, "m1-s1")
    assert warned(deck) == [
        "gpudeck: of 4 results 1 builds on results that are newer (stale: gather): "
        "`gpudeck retry state:stale` runs it again, `gpudeck accept state:stale` keeps its result"
    ]
    edit(deck, "true", ":")
    assert warned(deck, "m1-s1", "gather") == [
        "gpudeck: of 2 results 1 is not of what the file says now (changed: m1-s1); "
        "1 builds on results that are newer (stale: gather): "
        "`gpudeck retry state:changed state:stale` runs them again, "
        "`gpudeck accept state:changed state:stale` keeps their results"
    ]


def test_results_that_a_later_run_left_out_are_told_as_well(deck: Commanded) -> None:
    deck.write(SWEEP)
    assert deck.run().code == 0
    edit(deck, "true", ":")
    assert deck.run("--only", "gather").code == 1  # what it needs is not done as the file says now
    states = {row["name"]: (row["changed"], row["left_out"]) for row in deck.rows("m1-*").values()}
    assert set(states.values()) == {(True, True)}
    assert "succeeded changed left out" in deck.command("ls", "m1-s1").out
    assert list(deck.rows("state:changed")) == list(states)
    (said,) = warned(deck, "m1-*")
    assert "3 are not of what the file says now (changed: m1-s1, m1-s2, m1-s3)" in said
    assert "the last one left some out" in said


def test_apply_takes_up_nothing_that_the_run_leaves_out(deck: Commanded) -> None:
    deck.write(SWEEP)
    assert deck.run().code == 0
    edit(deck, "true", ":")
    assert deck.run("--only", "gather").code == 1
    assert deck.command("apply", "--dry-run").out.splitlines()[0] == "nothing has changed"


def test_show_of_a_changed_task_tells_what_its_newest_attempt_ran(deck: Commanded) -> None:
    deck.write(SWEEP)
    assert deck.run().code == 0
    assert "the file says now" not in deck.command("show", "m1-s1").out
    edit(deck, "true", ":")
    out = deck.command("show", "m1-s1").out
    assert (
        "  command   echo acc=0.1; : 1  (as the file says now)\n  ran       echo acc=0.1; true 1  (attempt 1)\n" in out
    )


def test_show_of_a_task_whose_command_is_the_same_repeats_nothing(deck: Commanded) -> None:
    deck.write(SWEEP)
    assert deck.run().code == 0
    edit(deck, 'command = ["echo"', 'env = { A = "1" }\ncommand = ["echo"')
    out = deck.command("show", "gather").out
    assert "  command   echo acc=0.5 'of all'  (as the file says now)\n  cwd " in out


def test_show_lists_attempts_newest_first(deck: Commanded) -> None:
    deck.gate()
    deck.write("""
        [deck]
        gpus = "none"
        [[task]]
        name = "a"
        gpus = 0
        retries = 2
        backoff = "0s"
        command = "test {attempt} = 3 && read _ < gate; exit 1"
    """)
    assert deck.go().code == 0
    deck.until_state("a", "running")
    shown = deck.command("show", "a").out
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("attempt")] == ["3", "2", "1"]
    told = json.loads(deck.command("show", "a", "--json").out)
    assert [each["number"] for each in told["attempts"]] == [1, 2]
