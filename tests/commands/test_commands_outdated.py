"""Results of tasks that the file has changed since, or that build on what is newer: `table` and `show` say so."""

from __future__ import annotations

from tests.commands.commands_rig import Commanded
from tests.rigs.desk import Desk, Ends, at_desk

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
DONE = {name: Ends(out="acc=0.5\n") for name in ("m1-s1", "m1-s2", "m1-s3", "gather")}


def edit(desk: Desk, old: str, new: str) -> None:
    text = desk.text("tasks.toml")
    assert old in text
    desk.write(text.replace(old, new))


async def warned(desk: Desk, *words: str) -> list[str]:
    """What `table` says beside the table."""
    return [line for line in (await desk.command("table", *words)).err.splitlines() if "results" in line]


def test_a_table_says_which_results_are_not_of_what_the_file_says_now(deck: Commanded) -> None:
    deck.write(SWEEP)
    assert deck.run().code == 0
    before = deck.command("table", "--over", "seed", "m1-*")
    deck.write(SWEEP.replace("true", ":"))
    after = deck.command("table", "--over", "seed", "m1-*")
    assert (before.err, after.out) == ("", before.out)
    assert "0.2" in before.out
    assert after.err == (
        "gpudeck: of 3 results 3 are not of what the file says now (changed: m1-s1, m1-s2, m1-s3): "
        "`gpudeck retry state:changed` runs them again, `gpudeck accept state:changed` keeps their results\n"
    )


@at_desk(SWEEP, DONE)
async def test_a_table_of_results_that_are_as_the_file_says_warns_of_nothing(desk: Desk) -> None:
    assert await desk.run() == 0
    edit(desk, "true", ":")
    assert await warned(desk, "gather") == []


@at_desk(SWEEP, DONE)
async def test_a_table_says_which_results_build_on_newer_ones(desk: Desk) -> None:
    assert await desk.run() == 0
    assert (await desk.command("retry", "m1-s1", "-y")).code == 0
    assert (await desk.command("wait")).code == 0
    assert (await desk.command("stop")).code == 0
    assert await warned(desk) == [
        "gpudeck: of 4 results 1 builds on results that are newer (stale: gather): "
        "`gpudeck retry state:stale` runs it again, `gpudeck accept state:stale` keeps its result"
    ]
    edit(desk, "true", ":")
    assert await warned(desk, "m1-s1", "gather") == [
        "gpudeck: of 2 results 1 is not of what the file says now (changed: m1-s1); "
        "1 builds on results that are newer (stale: gather): "
        "`gpudeck retry state:changed state:stale` runs them again, "
        "`gpudeck accept state:changed state:stale` keeps their results"
    ]


@at_desk(SWEEP, DONE)
async def test_results_that_a_later_run_left_out_are_told_as_well(desk: Desk) -> None:
    assert await desk.run() == 0
    edit(desk, "true", ":")
    assert await desk.run("--only", "gather") == 1  # what it needs is not done as the file says now
    states = {row["name"]: (row["changed"], row["left_out"]) for row in (await desk.rows("m1-*")).values()}
    assert set(states.values()) == {(True, True)}
    assert "succeeded changed left out" in (await desk.command("ls", "m1-s1")).out
    assert list(await desk.rows("state:changed")) == list(states)
    (said,) = await warned(desk, "m1-*")
    assert "3 are not of what the file says now (changed: m1-s1, m1-s2, m1-s3)" in said
    assert "the last one left some out" in said
    assert (await desk.command("apply", "--dry-run")).out.splitlines()[0] == "nothing has changed"


@at_desk(SWEEP, DONE)
async def test_show_of_a_changed_task_tells_what_its_newest_attempt_ran(desk: Desk) -> None:
    assert await desk.run() == 0
    assert "the file says now" not in (await desk.command("show", "m1-s1")).out
    edit(desk, "true", ":")
    out = (await desk.command("show", "m1-s1")).out
    assert (
        "  command   echo acc=0.1; : 1  (as the file says now)\n  ran       echo acc=0.1; true 1  (attempt 1)\n" in out
    )


@at_desk(SWEEP, DONE)
async def test_show_of_a_task_whose_command_is_the_same_repeats_nothing(desk: Desk) -> None:
    assert await desk.run() == 0
    edit(desk, 'command = ["echo"', 'env = { A = "1" }\ncommand = ["echo"')
    out = (await desk.command("show", "gather")).out
    assert "  command   echo acc=0.5 'of all'  (as the file says now)\n  entry " in out


@at_desk('[[task]]\nname = "a"\ngpus = 0\nretries = 2\nbackoff = "0s"\ncommand = "false"\n')
async def test_show_lists_attempts_newest_first(desk: Desk) -> None:
    await desk.start()
    for _ in range(2):
        await desk.ends("a", 1)
    await desk.until(lambda: len(desk.started) == 3)
    shown = (await desk.command("show", "a")).out
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("attempt")] == ["3", "2", "1"]
    assert [each["number"] for each in (await desk.told("show", "a"))["attempts"]] == [1, 2]
