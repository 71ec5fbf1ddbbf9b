"""The user's queue: single commands of all folders of a host, and what commands mean where there is no task file."""

from __future__ import annotations

import json

import pytest

from tests.commands.commands_rig import Commanded
from tests.commands.run_rig import ONE, book_of, runs_of, until_run
from tests.e2e.decks import until


@pytest.fixture
def empty(deck: Commanded) -> Commanded:
    """A folder without a task file."""
    deck.folder.mkdir(exist_ok=True)
    (deck.folder / "tasks.toml").unlink(missing_ok=True)
    return deck


def test_commands_of_all_folders_are_in_one_queue(empty: Commanded) -> None:
    for folder in ("one", "two"):
        (empty.folder / folder).mkdir()
        assert empty.shell(f"cd {folder} && gpudeck run --gpus sim:1 --name {folder} -- pwd").out.endswith(
            f"/{folder}\n"
        )
    seen = empty.shell("cd / && gpudeck ls --json")
    assert [row["name"] for row in json.loads(seen.out)] == ["one", "two"]
    assert seen.err.splitlines()[0] == "gpudeck: no tasks.toml here or above: this is your queue of single commands"
    assert empty.shell("cd one && gpudeck logs two").out.endswith("/two\n")


def test_without_a_task_file_add_puts_a_command_into_the_queue(empty: Commanded) -> None:
    added = empty.command("add", "-n", "0", "--name", "note", "--", "echo", "hello")
    assert (added.code, added.out) == (0, "note\n"), added.err
    assert empty.command("wait", "note").code == 0
    assert empty.command("logs", "note").out == "hello\n"
    assert json.loads(empty.command("add", "-n", "0", "--json", "true").out) == {"added": ["true"]}
    assert not (empty.folder / ".gpudeck").exists()


def test_ls_of_the_queue_shows_the_commands_as_they_were_typed(empty: Commanded) -> None:
    for words in (("echo", "{x} {{y}}"), ("exit 3",)):
        assert empty.command("add", "-n", "0", "--", *words).code == 0
    assert empty.command("wait").code == 1
    lines = empty.command("ls").out.splitlines()
    assert [lines[1].endswith("  echo '{x} {{y}}'"), lines[2].endswith("exit 3  exit 3")] == [True, True], lines


@pytest.mark.parametrize(
    "words", [("--like", "a"), ("--needs", "a", "true"), ("--round", "1", "true"), ("--set", "lr=1", "true")]
)
def test_what_is_said_of_other_tasks_wants_a_task_file(empty: Commanded, words: tuple[str, ...]) -> None:
    done = empty.command("add", *words)
    assert (done.code, f"{words[0]} wants a task file" in done.err, done.err.count("\n")) == (2, True, 1)
    assert not book_of(empty).exists()


def test_a_name_that_only_the_queue_has_is_said_to_be_there(empty: Commanded) -> None:
    assert empty.command(*ONE, "--name", "mine", "true").code == 0
    empty.write('[deck]\ngpus = "sim:1"\n[[task]]\nname = "t"\ncommand = "true"\n')
    for verb in ("show", "logs", "cancel"):
        done = empty.command(verb, "mine")
        assert (done.code, "mine is in your queue: --queue means that" in done.err) == (2, True), done.err
    assert "is in your queue" not in empty.command("show", "other").err


def test_clean_takes_off_the_list_what_has_ended_with_its_logs(empty: Commanded) -> None:
    gate = empty.gate()
    assert empty.command(*ONE, "--name", "bad", "echo why; exit 3").code == 3
    assert empty.command(*ONE, "-d", "--name", "lasts", "read _ <gate").code == 0
    until_run(empty, "lasts", "running")
    until((empty.queue_folder / "logs/bad/attempt-1.json").exists)
    assert "to take off the list: 1 ended command (bad), with the logs" in empty.command("clean", "--dry-run").out
    assert "nothing to remove" in empty.command("clean", "--dry-run", "--keep-last", "1").out
    assert empty.command("clean", "-y").out.endswith("taken off the list: 1 command\n")
    assert [row["name"] for row in json.loads(empty.command("ls", "--json").out)] == ["lasts"]
    left = [path.name for path in (empty.queue_folder / "logs/bad").iterdir()]
    assert left == ["attempt-1.json"]
    gate.let()
    assert empty.command("wait").code == 0


def test_on_a_box_without_gpus_what_wants_one_is_shown_on_the_cpu(empty: Commanded) -> None:
    assert empty.command("run", "--name", "t", "--", "true").code == 0
    assert empty.command("ls").out.splitlines()[1].split()[:3] == ["t", "succeeded", "cpu"]


def test_the_simulated_gpu_of_an_ended_command_stays_told_where_the_next_engine_has_none(empty: Commanded) -> None:
    assert empty.command(*ONE, "--name", "t", "true").code == 0
    assert empty.command("stop", "--queue").code == 0
    assert empty.command("run", "--name", "u", "--", "true").code == 0
    assert [line.split()[2] for line in empty.command("ls").out.splitlines()[1:]] == ["0", "cpu"]


def test_a_command_is_added_where_it_is_to_run(empty: Commanded) -> None:
    (empty.folder / "there").mkdir()
    assert empty.command("add", "-n", "0", "--cwd", "there", "--name", "t", "pwd").code == 0
    empty.command("wait", "t")
    assert empty.command("logs", "t").out == f"{empty.folder}/there\n"


def test_what_failed_in_the_queue_is_retried_and_cancelled_like_any_task(empty: Commanded) -> None:
    gate = empty.gate()
    line = "test -e ok && exit; touch ok; exit 3"
    assert empty.command(*ONE, "--name", "t", line).code == 3
    assert empty.command("retry", "t").code == 0
    assert empty.command("wait", "t").code == 0
    assert empty.command(*ONE, "-d", "--name", "long", "read _ <gate").code == 0
    until_run(empty, "long", "running")
    assert empty.command("cancel", "long").code == 0
    until_run(empty, "long", "cancelled")
    gate.let()


@pytest.mark.parametrize("words", [("start",), ("stop",), ("--headless",), ("apply",), ("pause",), ("plan",)])
def test_what_is_meant_for_a_deck_does_nothing_to_the_queue(empty: Commanded, words: tuple[str, ...]) -> None:
    assert empty.command(*ONE, "-d", "true").code == 0
    done = empty.command(*words)
    assert (done.code, done.err) == (
        2,
        "gpudeck: no tasks.toml here or above: `gpudeck init` writes one; `gpudeck run -- CMD` needs none; "
        "--queue means your single commands\n",
    )


def test_what_is_told_without_a_task_file_can_be_typed_there(empty: Commanded) -> None:
    assert empty.command(*ONE, "--name", "t", "exit 3").code == 3
    until(lambda: not empty.engines_alive())
    assert "`gpudeck stop --queue` ends it" in empty.command("retry", "t").err
    assert empty.command("stop", "--queue").code == 0


def test_beside_a_task_file_the_queue_is_meant_by_name(empty: Commanded) -> None:
    empty.write('[deck]\ngpus = "sim:1"\n[[task]]\nname = "true"\ncommand = "true"\n')
    assert empty.command(*ONE, "--name", "mine", "true").code == 0
    assert list(runs_of(empty)) == ["mine"]
    assert list(empty.rows()) == ["true"]
    both = empty.command("ls", "--queue", "-f", "tasks.toml")
    assert (both.code, "no task file" in both.err) == (2, True)


def test_in_a_slurm_job_the_queue_is_the_jobs_own(empty: Commanded) -> None:
    assert empty.command("run", "-n", "0", "--name", "out", "true").code == 0
    assert list(runs_of(empty)) == ["out"]
    inside = empty.command("ls", "--queue", env={"SLURM_JOB_ID": "4711"})
    assert (inside.code, "your queue on this host is empty" in inside.err) == (2, True)


def test_a_task_file_is_no_part_of_a_run(empty: Commanded) -> None:
    done = empty.command("-f", "other.toml", "run", "--", "true")
    assert (done.code, done.err) == (
        2,
        "gpudeck: run needs no task file: `gpudeck -f other.toml add -- COMMAND` puts a command into one\n",
    )


def test_the_option_of_before_says_what_it_is_called_now(empty: Commanded) -> None:
    done = empty.command("ls", "--runs")
    assert (done.code, "it is --queue now" in done.err) == (2, True)


def test_a_queue_that_cannot_be_kept_names_the_variable_that_moves_it(empty: Commanded) -> None:
    (empty.folder / "file").write_text("")
    done = empty.command(*ONE, "true", env={"XDG_STATE_HOME": str(empty.folder / "file" / "state")})
    assert (done.code, "XDG_STATE_HOME" in done.err, done.err.count("\n")) == (2, True, 1)
