"""The commands beside --headless: check, plan, gpus, env, schema."""

from __future__ import annotations

import json

import pytest

from tests.e2e.decks import Deck, until

SWEEP = """
[deck]
gpus = "sim:4"
[[task]]
name = "train-{noise}-{rate}"
command = "sleep 0.01 # {noise} {rate}"
matrix.noise = ["sym", "asym"]
matrix.rate = [0.125, 0.25, 0.375, 0.50, 0.625, 0.75]
timeout = "30m"
[[task]]
name = "gather"
command = "true"
gpus = 0
round = 1
"""


def planned(deck: Deck, *options: str) -> list[dict[str, object]]:
    done = deck.command("plan", "tasks.toml", "--json", *options)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_plan_gives_twelve_runs_to_four_gpus_in_the_order_of_the_file(deck: Deck) -> None:
    deck.write(SWEEP)
    rows = planned(deck)
    assert [(row["task"], row["gpus"]) for row in rows[:6]] == [
        ("train-sym-0.125", "0"),
        ("train-sym-0.25", "1"),
        ("train-sym-0.375", "2"),
        ("train-sym-0.50", "3"),
        ("train-sym-0.625", "0"),
        ("train-sym-0.75", "1"),
    ]
    assert (rows[12]["task"], rows[12]["gpus"]) == ("gather", "cpu")


def test_a_plan_says_which_lengths_are_guesses(deck: Deck) -> None:
    deck.write(SWEEP)
    assert all(row["guessed"] for row in planned(deck))
    assert deck.run().code == 0
    assert not any(row["guessed"] for row in planned(deck, "--no-skip-existing"))


def test_a_plan_after_a_run_has_nothing_left_to_do(deck: Deck) -> None:
    deck.write(SWEEP)
    assert deck.run().code == 0
    assert {row["state"] for row in planned(deck)} == {"done earlier"}
    assert "nothing would run" in deck.command("plan", "tasks.toml").out


def test_a_plan_starts_and_leaves_nothing(deck: Deck) -> None:
    deck.write(SWEEP)
    planned(deck)
    assert [path.name for path in deck.folder.iterdir()] == ["tasks.toml"]


def test_check_says_that_a_file_is_sound_and_what_it_makes(deck: Deck) -> None:
    deck.write(SWEEP)
    done = deck.command("check", "tasks.toml")
    assert (done.code, done.out) == (0, "tasks.toml: sound; 13 tasks from 2 entries in 2 rounds\n")


@pytest.mark.parametrize(
    ("gpus", "more", "told", "commands"),
    [
        ("[99]", "", ["tasks.toml:2: [deck]: gpus: GPU 99 cannot be used"], "check plan --headless"),
        ("[99]", "retries = -1", ["6: task \"a\": retries must be", "gpus: GPU 99 cannot"], "check plan --headless"),
        ('"sim:2"', "gpus = 3\nnodes = 2", ["has only 2", 'nodes = 2 needs backend = "slurm"'], "check --headless"),
    ],
    ids=["a GPU that is not there, with its line", "what is wrong, too", "what does not fit or cannot be done yet"],
)  # fmt: skip
def test_all_that_bars_a_deck_is_told_at_once(deck: Deck, gpus: str, more: str, told: list[str], commands: str) -> None:
    deck.write(f'[deck]\ngpus = {gpus}\n[[task]]\nname = "a"\ncommand = "true"\n{more}\n')
    for command in commands.split():
        said = deck.command(command, "tasks.toml").err
        assert [part for part in told if part not in said] == [], command


def test_check_misses_the_variables_that_tasks_do_not_get(deck: Deck) -> None:
    deck.write('[[task]]\nname = "a"\ncommand = "true"\ngpus = 0\nenv_required = ["SSH_AUTH_SOCK"]\n')
    done = deck.command("check", "tasks.toml", env={"SSH_AUTH_SOCK": "/tmp/agent"})
    assert "SSH_AUTH_SOCK is not set in the environment" in done.out


def test_check_refuses_what_no_gpu_is_large_enough_for(deck: Deck) -> None:
    deck.write('[deck]\ngpus = "sim:2"\n[[task]]\nname = "a"\ncommand = "true"\ngpu_memory = "90GiB"\n')
    done = deck.command("check", "tasks.toml")
    assert (done.code, done.err) == (
        2,
        'tasks.toml:3: task "a": gpu_memory = 90.0 GiB, but the largest GPU has 80.0 GiB\n',
    )


def test_a_first_start_that_is_refused_leaves_nothing_behind(deck: Deck) -> None:
    deck.write('[[task]]\nname = "a"\ncommand = "true"\nfoo = 1\n')
    assert deck.run().code == 2
    assert [path.name for path in deck.folder.iterdir()] == ["tasks.toml"]


def test_the_schema_is_json_that_knows_the_keys(deck: Deck) -> None:
    schema = json.loads(deck.command("schema").out)
    assert "https://json-schema.org/draft/2020-12/schema" in schema["$schema"]


def test_a_start_without_a_selection_means_all_tasks_also_after_an_interrupted_one_with_it(deck: Deck) -> None:
    deck.write(
        '[deck]\ngpus = "sim:1"\n[[task]]\nname = "t{n}"\ncommand = "read _ <gate # {n}"\nmatrix.n = [1, 2, 3]\n'
    )
    gate = deck.gate()
    engine = deck.start("--limit", "1")
    engine.started("t1")
    engine.kill()
    gate.let(3)
    assert deck.run().states == {"t1": "succeeded", "t2": "succeeded", "t3": "succeeded"}


def test_a_task_edited_while_it_ran_on_its_own_runs_again_as_what_the_file_now_says(deck: Deck) -> None:
    deck.write('[[task]]\nname = "t"\ngpus = 0\ncommand = "read _ <gate; echo old >out"\n')
    gate = deck.gate()
    engine = deck.start()
    engine.started("t")
    engine.kill()
    deck.write('[[task]]\nname = "t"\ngpus = 0\ncommand = "echo new >out"\n')
    again = deck.start()
    again.note("t still runs as it was before the file was changed; its work as the file has it now follows")
    gate.let()
    ran = again.finish()
    assert (ran.code, deck.text("out")) == (0, "new\n")


def test_of_a_task_that_ended_while_nobody_looked_it_is_not_said_that_it_still_runs(deck: Deck) -> None:
    deck.write('[[task]]\nname = "t"\ngpus = 0\ncommand = "read _ <gate; echo old >out"\n')
    gate = deck.gate()
    engine = deck.start()
    engine.started("t")
    engine.kill()
    gate.let()
    until(lambda: not deck.living())
    deck.write('[[task]]\nname = "t"\ngpus = 0\ncommand = "echo new >out"\n')
    ran = deck.run()
    assert "still runs" not in ran.notes
    assert (ran.code, deck.text("out")) == (0, "new\n")


def test_a_continued_run_refuses_other_values(deck: Deck) -> None:
    deck.write('[vars]\nx = 1\n[[task]]\nname = "t"\ngpus = 0\ncommand = "echo {x}; read _ <gate"\n')
    gate = deck.gate()
    engine = deck.start("--set", "x=2")
    engine.started("t")
    engine.kill()
    refused = deck.run("--set", "x=3")
    assert refused.code == 2
    assert "--set: the run that goes on was started with --set x=2" in refused.err
    gate.let()
    assert deck.run().code == 0


def test_the_plan_of_an_unfinished_run_is_of_what_that_was_started_with(deck: Deck) -> None:
    gated = SWEEP.replace("sleep 0.01", "read _ <gate; sleep 0.01")
    deck.write(gated.replace("[0.125, 0.25, 0.375, 0.50, 0.625, 0.75]", '"{rates}"') + "[vars]\nrates = [0.1]\n")
    gate = deck.gate()
    engine = deck.start("--set", "rates=[0.5, 0.75]")
    engine.event("task_started")
    engine.kill()
    names = ("train-sym-0.5", "train-sym-0.75", "train-asym-0.5", "train-asym-0.75", "gather")
    assert tuple(row["task"] for row in planned(deck)) == names
    gate.let(4)
