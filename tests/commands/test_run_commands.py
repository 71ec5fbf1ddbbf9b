"""`gpudeck run`: a command on free GPUs, as if it had been typed without gpudeck."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.commands.commands_rig import Commanded
from tests.commands.run_rig import ONE, TWO, book_of, runs_of

LINES = 10_000


def test_what_it_writes_comes_through_and_its_exit_code(deck: Commanded) -> None:
    done = deck.command(*ONE, "--", "bash", "-c", "echo out; echo err >&2; exit 7")
    assert (done.code, done.out, done.err) == (7, "out\n", "err\n")


def test_one_word_in_quotes_is_a_line_for_bash(deck: Commanded) -> None:
    assert deck.command(*ONE, "echo a && echo $((1 + 1))").out == "a\n2\n"


def test_several_words_are_no_shell_line(deck: Commanded) -> None:
    assert deck.command(*ONE, "--", "printf", "%s|", "a b", "$HOME", "*", "").out == "a b|$HOME|*||"


def test_nothing_in_a_command_is_a_placeholder(deck: Commanded) -> None:
    words = ("{task}", "{{task}}", "{nonsense}", "${HOME}", "{a:b}")
    assert deck.command(*ONE, "echo", *words).out == " ".join(words) + "\n"
    assert deck.command(*ONE, "echo '{gpu_ids}'").out == "{gpu_ids}\n"


def test_options_behind_the_command_are_the_commands(deck: Commanded) -> None:
    assert deck.command(*ONE, "echo", "-n", "4", "--gpus", "-d", "--", "-x").out == "4 --gpus -d -- -x"


def test_a_gpu_is_given_to_it(deck: Commanded) -> None:
    assert deck.command(*TWO, "-n", "2", "echo $CUDA_VISIBLE_DEVICES").out == "0,1\n"
    assert deck.command(*TWO, "-n", "0", "echo [$CUDA_VISIBLE_DEVICES]").out == "[]\n"


def test_it_runs_where_it_is_typed(deck: Commanded) -> None:
    deck.write('[[task]]\nname = "t"\ncommand = "true"\n')
    folder = deck.folder / "a {task} b"
    folder.mkdir()
    done = deck.shell(f"cd '{folder}' && gpudeck run --gpus sim:1 -- pwd")
    assert done.out == f"{folder}\n"
    assert book_of(deck).exists()
    assert sorted(path.name for path in deck.folder.iterdir()) == [".home", "a {task} b", "tasks.toml"]
    assert not list(folder.iterdir())


def test_the_same_command_twice_runs_twice(deck: Commanded) -> None:
    for _ in range(2):
        assert deck.command(*ONE, "echo ran | tee -a ran").out == "ran\n"
    assert deck.lines("ran") == ["ran", "ran"]
    assert list(runs_of(deck)) == ["echo", "echo-2"]


def test_a_name_of_an_earlier_run_is_numbered_even_when_its_logs_are_gone(deck: Commanded) -> None:
    names: list[str] = []
    for _ in range(2):
        names += deck.command(*ONE, "-d", "--name", "mine", "true").out.split()
        deck.command("wait", "--queue")
        shutil.rmtree(deck.queue_folder / "logs" / names[-1])
    assert names == ["mine", "mine-2"]


def test_ten_thousand_lines_arrive_in_order(deck: Commanded) -> None:
    done = deck.command(*ONE, f"for i in $(seq {LINES}); do echo $i; echo e$i >&2; done")
    assert done.out.split() == [str(number) for number in range(1, LINES + 1)]
    assert done.err.split() == [f"e{number}" for number in range(1, LINES + 1)]


def test_every_byte_of_binary_output_arrives_through_a_pipe(deck: Commanded) -> None:
    blob = bytes(range(256)) * 4096 + b"\x1b[2J no newline at the end"
    (deck.folder / "blob").write_bytes(blob)
    assert deck.shell("gpudeck run --gpus sim:1 -- cat blob | cat > copy").err == ""
    assert (deck.folder / "copy").read_bytes() == blob


def test_a_reader_that_goes_away_does_not_end_the_run(deck: Commanded) -> None:
    gate = deck.gate()
    line = "yes | head -n 100000; read _ <gate; echo end >ended"
    done = deck.shell(f"gpudeck run --gpus sim:1 '{line}' | head -n 1; exit ${{PIPESTATUS[0]}}")
    assert (done.code, done.out) == (141, "y\n")
    assert "nobody reads" in done.err
    gate.let()
    assert deck.command("wait", "--queue").code == 0
    assert deck.lines("ended") == ["end"]


# -- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("line", "code"), [("kill -TERM $$", 143), ("kill -KILL $$", 137), ("exit 255", 255)])
def test_the_code_is_what_a_shell_would_say(deck: Commanded, line: str, code: int) -> None:
    assert deck.command(*ONE, line).code == code


def test_a_command_that_does_not_exist_is_127(deck: Commanded) -> None:
    done = deck.command(*ONE, "--", "nonsense-command-xyz", "a")
    assert (done.code, done.err) == (127, "gpudeck: nonsense-command-xyz: command not found on PATH\n")
    done = deck.command(*ONE, "--", "./nothing.sh")
    assert (done.code, done.err.count("\n")) == (127, 1)
    assert f"./nothing.sh: command not found: no such file in {deck.folder}" in done.err


def test_a_file_that_cannot_be_executed_is_126(deck: Commanded) -> None:
    (deck.folder / "bin").mkdir()
    for place in ("train.sh", "bin/tool"):
        (deck.folder / place).write_text("true\n")
    done = deck.command(*ONE, "--", "./train.sh")
    assert (done.code, done.err.startswith("gpudeck: ./train.sh: not executable: ")) == (126, True)
    assert deck.command(*ONE, "--", "./bin").code == 126
    assert deck.shell("PATH=$PWD/bin:$PATH gpudeck run --gpus sim:1 -- tool").code == 126


def test_a_command_that_cannot_be_executed_is_not_written_down(deck: Commanded) -> None:
    assert deck.command(*ONE, "--", "nonsense-command-xyz").code == 127
    assert deck.command("ls", "--queue").code == 2
    assert not (deck.folder / "logs").exists()


def test_show_tells_nothing_that_only_gpudeck_made(deck: Commanded) -> None:
    assert deck.command(*ONE, "--name", "r", "--env", "LR=0.1", "true").code == 0
    shown = deck.command("show", "--queue", "r")
    told = json.loads(deck.command("show", "--queue", "r", "--json").out)
    assert ("GPUDECK" in shown.out, "boot" in shown.out) == (False, False)
    assert (told["env"], told["tags"]) == ({}, [])


def test_the_timeout_is_124(deck: Commanded) -> None:
    done = deck.command(*ONE, "--timeout", "200ms", "--", "sleep", "60")
    assert (done.code, done.err) == (124, "gpudeck: sleep: timeout after 0.2 s\n")


def test_what_can_never_run_here_is_told_in_one_line_and_nothing_is_left(deck: Commanded) -> None:
    done = deck.command(*TWO, "-n", "3", "true")
    assert (done.code, done.err) == (2, "gpudeck: gpus = 3, but the deck has only 2\n")
    assert not book_of(deck).exists()
    assert not list((deck.queue_folder / "logs").glob("true*"))


def test_a_mistake_keeps_what_was_run_before(deck: Commanded) -> None:
    assert deck.command(*TWO, "true").code == 0
    assert deck.command(*TWO, "-n", "3", "true").code == 2
    assert list(runs_of(deck)) == ["true"]


def test_where_there_is_no_task_file_commands_are_about_what_was_run_here(deck: Commanded) -> None:
    (deck.folder / "tasks.toml").unlink(missing_ok=True)
    assert deck.command(*ONE, "--name", "r", "echo", "hello").code == 0
    assert [row["name"] for row in json.loads(deck.command("ls", "--json").out)] == ["r"]
    assert deck.command("logs", "r").out == "hello\n"


def test_other_commands_say_where_nothing_was_run(deck: Commanded) -> None:
    done = deck.command("ls", "--queue")
    assert (done.code, done.err) == (
        2,
        "gpudeck: your queue on this host is empty: `gpudeck run -- COMMAND` runs a command\n",
    )


# -- the environment --------------------------------------------------------------------------------------------------


def test_each_run_has_the_environment_of_its_own_shell(
    deck: Commanded, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert deck.command(*ONE, "true").code == 0
    venv = tmp_path_factory.mktemp("venv")
    (venv / "bin").mkdir()
    (venv / "bin" / "python").write_text("#!/bin/sh\necho my own python\n")
    (venv / "bin" / "python").chmod(0o755)
    env = {"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:{deck.env['PATH']}", "ONLY_HERE": "yes"}
    done = deck.command(*ONE, "--", "bash", "-c", "python; echo $VIRTUAL_ENV $ONLY_HERE; echo $PATH", env=env)
    assert done.out.splitlines() == ["my own python", f"{venv} yes", env["PATH"]]
    assert deck.command(*ONE, "echo [$ONLY_HERE]").out == "[]\n"


def test_a_retry_has_the_environment_of_the_run(deck: Commanded) -> None:
    assert deck.command(*ONE, "--name", "r", "echo $WHO >> who; test $WHO = b", env={"WHO": "a"}).code == 1
    assert deck.command("retry", "--queue", "r", env={"WHO": "b"}).code == 0
    deck.command("wait", "--queue")
    assert deck.lines("who") == ["a", "a"]


def test_two_decks_of_one_folder_do_not_meet(deck: Commanded) -> None:
    deck.write('[deck]\ngpus = "sim:1"\n[[task]]\nname = "true"\ncommand = "true"\n')
    assert deck.run().code == 0
    assert deck.command(*ONE, "true").code == 0
    assert list(deck.rows()) == list(runs_of(deck)) == ["true"]
