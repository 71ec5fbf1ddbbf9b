"""What the shells offer: each is asked as it asks itself, with its own script and the real command behind it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from gpudeck.engine.errors import UsageError
from tests.inside.tui import SHELLS, VERBS, print_script, script

DECK = """
[vars]
seeds = [1, 2]
[profile.smoke]
vars = { seeds = [1] }
[[task]]
name = "train-s{seed}"
command = "true"
matrix.seed = "{seeds}"
tags = ["large"]
[[task]]
name = "gather"
command = "true"
"""

PROGRAM = """\
#!{python}
from gpudeck.cli.arguments import parser_of
from gpudeck.cli.completion import complete
from gpudeck.cli.verbs import DECK, VERBS
complete({{verb.name: verb.text for verb in VERBS.values() if not verb.hidden}}, lambda name: parser_of(name or DECK))
"""

BASH = """\
source {script}
COMP_LINE={line} COMP_TYPE=9 COMP_CWORD=1
COMP_POINT=${{#COMP_LINE}}
_python_argcomplete gpudeck
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The current folder of a shell: a task file, and gpudeck on PATH in bin/."""
    (tmp_path / "tasks.toml").write_text(DECK)
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gpudeck").write_text(PROGRAM.format(python=sys.executable))
    (tmp_path / "bin/gpudeck").chmod(0o755)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GPUDECK_")}
    return {**env, "PATH": f"{folder / 'bin'}:{env['PATH']}", "HOME": str(folder)}


def offered(folder: Path, line: str) -> set[str]:
    """What bash offers at the end of *line*."""
    path = folder / "bin" / "completion.bash"
    path.write_text(script("bash"))
    text = BASH.format(script=shlex.quote(str(path)), line=shlex.quote(line))
    done = subprocess.run(
        ["bash", "--norc", "-c", text], cwd=folder, env=environment(folder), capture_output=True, text=True, check=True
    )
    return {word.strip() for word in done.stdout.splitlines()} - {""}


# -- commands and options ---------------------------------------------------------------------------------------------


def test_every_command_is_offered_first_but_hidden_ones(folder: Path) -> None:
    found = offered(folder, "gpudeck ")
    assert {verb.name for verb in VERBS.values() if not verb.hidden} <= found
    assert "engine" not in found


@pytest.mark.parametrize(
    ("begun", "rest"),
    [
        ("expl", {"explain"}),
        ("retry --fr", {"--fresh"}),
        ("ls --fr", set()),
        ("apply --ke", {"--keep"}),
        ("--headl", {"--headless"}),
        ("engine --opt", set()),
        ("plan --backend ", {"local", "slurm"}),
        ("plan --limit ", set()),
        ("retry train-s1 ga", {"gather"}),
        ('retry "ga', {"gather"}),
        ("retry state:succ", {"succeeded"}),
        ("retry reason:missing", {"missing-output"}),
        ("retry tag:", {"large"}),
        ("retry seed=", {"1", "2"}),
        ("retry --profile smoke tr", {"train-s1"}),
        ("plan --profile ", {"smoke"}),
        ("plan --set se", {"seeds="}),
        ("fit gather --var se", {"seeds="}),
        ("fit ga", {"gather"}),
        ("plan --log-dir ", {"bin/"}),
    ],
)
def test_what_was_begun_is_completed(begun: str, rest: set[str], folder: Path) -> None:
    assert offered(folder, f"gpudeck {begun}") == rest


def test_bare_words_of_which_there_are_few_are_offered(folder: Path) -> None:
    assert {"drain", "enable", "take"} <= offered(folder, "gpudeck gpus ")


# -- tasks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "begun", ["retry ", "explain ", "logs -f ", "plan --only ", "plan --only=", "--headless --only "]
)
def test_tasks_are_offered_where_they_are_meant(begun: str, folder: Path) -> None:
    assert {"train-s1", "train-s2", "gather"} <= offered(folder, f"gpudeck {begun}")


def test_conditions_are_offered_by_their_kinds(folder: Path) -> None:
    assert {"state:", "reason:", "tag:", "gpu:", "seed="} <= offered(folder, "gpudeck retry ")


def test_the_file_that_is_named_is_the_one_that_is_read(folder: Path) -> None:
    (folder / "other.toml").write_text('[[task]]\nname = "elsewhere"\ncommand = "true"\n')
    for line in (
        "gpudeck -f other.toml retry el",
        "gpudeck retry --file other.toml el",
        "gpudeck plan other.toml --only el",
    ):
        assert offered(folder, line) == {"elsewhere"}


@pytest.mark.parametrize("text", ["", "[[task]", '[[task]]\nname = "a"\n', None])
def test_a_file_with_mistakes_or_none_offers_no_tasks(text: str | None, folder: Path) -> None:
    (folder / "tasks.toml").unlink()
    if text is not None:
        (folder / "tasks.toml").write_text(text)
    assert {"state:", "gpu:"} == offered(folder, "gpudeck retry ") - {"reason:"}


def test_asking_leaves_nothing_behind(folder: Path) -> None:
    before = {path.name for path in folder.iterdir()}
    offered(folder, "gpudeck retry ")
    assert {path.name for path in folder.iterdir()} == before


# -- files ------------------------------------------------------------------------------------------------------------


def test_task_files_are_offered_where_one_is_meant(folder: Path) -> None:
    found = offered(folder, "gpudeck check ")
    assert {"tasks.toml", "bin/"} <= found
    assert "notes.txt" not in found


def test_a_path_goes_on_where_it_was_begun(folder: Path) -> None:
    assert offered(folder, f"gpudeck check {folder}/ta") == {f"{folder}/tasks.toml"}


# -- the scripts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if which(shell)])
def test_the_shell_takes_its_script(shell: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(script(shell))
    done = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", [shell for shell in ("fish",) if which(shell)])
def test_fish_offers_commands_with_what_they_do(shell: str, folder: Path) -> None:
    (folder / "gpudeck.fish").write_text(script(shell))
    text = 'source gpudeck.fish; complete -C "true; gpudeck expl"; complete -C "gpudeck retry ga"'
    done = subprocess.run(
        [shell, "-c", text], cwd=folder, env=environment(folder), capture_output=True, text=True, check=True
    )
    assert done.stdout == f"explain\t{VERBS['explain'].text}\ngather\n"


@pytest.mark.parametrize(
    "line", ["gpudeck ls ga", "cd /; gpudeck ls ga", "A=1 gpudeck ls ga", "x && bin/gpudeck ls ga"]
)
def test_commands_before_it_on_the_line_do_not_count(line: str, folder: Path) -> None:
    """zsh tells all that stands on its line."""
    env = {
        **environment(folder),
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_SHELL": "zsh",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_STDOUT_FILENAME": str(folder / "answer"),
    }
    subprocess.run([folder / "bin/gpudeck"], cwd=folder, env=env, stderr=subprocess.DEVNULL, check=True)
    assert (folder / "answer").read_text().startswith("gather")


@pytest.mark.parametrize("shells", [(), ("tcsh",), ("bash", "zsh")])
def test_other_shells_are_refused(shells: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="bash, zsh, fish"):
        print_script(shells)
