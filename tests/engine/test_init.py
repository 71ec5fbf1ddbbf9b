"""`gpudeck init` writes a task file that works, and never harms one that exists."""

from __future__ import annotations

import io
import os
import random
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.errors import TaskFileError, UsageError
from tests.e2e.decks import Deck, caller_environment
from tests.inside.engine import check_name, init, load, names_for, read_commands


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(stdin: str = "", file: str | None = None, **how: object) -> int:
    return init(file, stdin=io.StringIO(stdin), environ={}, **how)  # type: ignore[arg-type]


def commands(path: str = "tasks.toml") -> dict[str, object]:
    return {spec.name: spec.work.command for spec in load(path).tasks}


# -- the starter -------------------------------------------------------------------------------------------------------


def test_the_starter_passes_the_check_and_runs(folder: Path) -> None:
    deck = Deck(folder, caller_environment())
    assert made() == 0
    assert "sound" in deck.command("check").out
    ran = deck.run("--gpus", "sim:2")
    assert ran.code == 0
    assert set(ran.states) == {"hello-s1", "hello-s2", "hello-s3", "summary"}


def test_the_starter_bears_the_name_and_the_gpus_that_are_given(folder: Path) -> None:
    made(name='a "b"', gpus=2)
    file = load("tasks.toml")
    assert file.settings.name == 'a "b"'
    assert file.tasks[0].resources.gpus == 2


def test_a_file_or_a_folder_can_be_named(folder: Path) -> None:
    (folder / "sub").mkdir()
    made(file="sub")
    made(file="other.toml")
    assert commands("sub/tasks.toml")
    assert commands("other.toml")


def test_a_file_that_exists_is_left_alone(folder: Path) -> None:
    (folder / "tasks.toml").write_text("mine")
    with pytest.raises(UsageError, match="exists and was left alone"):
        made()
    assert (folder / "tasks.toml").read_text() == "mine"


def test_a_link_that_leads_nowhere_is_left_alone(folder: Path) -> None:
    (folder / "tasks.toml").symlink_to("gone.toml")
    with pytest.raises(UsageError):
        made()
    assert not (folder / "gone.toml").exists()


def test_force_keeps_the_old_file_beside_the_new_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in ("first", "second"):
        (folder / "tasks.toml").write_text(content)
        made(force=True)
    assert "; the old one is tasks.toml.bak2; gpudeck plan -f tasks.toml shows" in capsys.readouterr().out
    assert (folder / "tasks.toml.bak").read_text() == "first"
    assert (folder / "tasks.toml.bak2").read_text() == "second"
    assert "hello-s1" in commands()


def test_a_name_that_no_deck_can_have_writes_nothing(folder: Path) -> None:
    with pytest.raises(TaskFileError, match=r"tasks\.toml:\d+: \[deck\]: name"):
        made(name="")
    assert os.listdir(folder) == []


def test_a_folder_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no/such/file\.toml cannot be written: No such file or directory"):
        made(file="no/such/file.toml")


# -- lists of commands -------------------------------------------------------------------------------------------------


def test_each_command_becomes_a_task(folder: Path) -> None:
    made("python train.py --lr 0.1\npython eval.py\n")
    assert commands() == {"train": "python train.py --lr 0.1", "eval": "python eval.py"}


SEEDS = [f"python train.py --seed {seed} --lr 0.1" for seed in range(1, 21)]


@pytest.mark.parametrize(
    ("lines", "entries"),
    [
        (
            [
                "cd x && python train.py",
                "python train.py 'a  b' | tee \"out $HOME\"",
                "awk '{print $1}' f; echo ${HOME} {x} {{y}} {env.NO} {} {a:1}",
                r"printf 'a\tb\\n'",
                "python x.py --cfg '{\"lr\": 1}' # with a comment",
                "FOO=1 python x.py '''quoted'''",
            ],
            6,
        ),
        (SEEDS, 1),
        (SEEDS[:3], 1),
        (SEEDS[:2], 2),
        ([f"python train.py --lr={lr}" for lr in ("1e-4", "0.50", "01", "-1", "1_000")], 1),
        ([f"python train.py --task {task}" for task in "abcde"], 1),
        ([f"python train.py '{word}'" for word in "abcd"], 4),
        ([f"python {name}.py" for name in ("train", "eval", "plot", "gather")], 4),
    ],
    ids=["any shell", "one word differs", "three", "two", "values as written", "a key's name", "quotes", "programs"],
)
def test_commands_are_kept_as_they_are_in_as_few_tables_as_can_be(folder: Path, lines: list[str], entries: int) -> None:
    made("\n".join(lines))
    assert list(commands().values()) == lines
    assert (folder / "tasks.toml").read_text().count("[[task]]") == entries
    if lines is SEEDS:
        assert list(commands())[:2] == ["train-1", "train-2"]


def test_comments_blank_lines_and_a_wait_are_no_tasks(folder: Path) -> None:
    made("#!/bin/bash\n\n  # all of it\npython a.py\nwait\n")
    assert list(commands().values()) == ["python a.py"]


def test_the_options_of_a_job_script_are_told_to_be_passed_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made("#!/bin/bash\n#SBATCH --array=0-5\npython a.py --seed $SLURM_ARRAY_TASK_ID\n")
    assert "#SBATCH lines are comments here" in capsys.readouterr().err


def test_a_line_that_goes_on_is_one_command(folder: Path) -> None:
    made("python a.py \\\n  --lr 1 \\\n  --seed 2\npython b.py\n")
    assert list(commands().values()) == ["python a.py --lr 1 --seed 2", "python b.py"]


def test_what_works_against_the_deck_is_left_out_and_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made("CUDA_VISIBLE_DEVICES=0 python a.py &\nCUDA_VISIBLE_DEVICES=1,2 python b.py > l 2>&1 &\npython c.py && true\n")
    assert list(commands().values()) == ["python a.py", "python b.py > l 2>&1", "python c.py && true"]
    err = capsys.readouterr().err
    assert "CUDA_VISIBLE_DEVICES left out of 2 commands" in err
    assert "& left out at the end of 2 commands" in err


def test_only_comments_write_nothing(folder: Path) -> None:
    with pytest.raises(UsageError, match="no command"):
        made("# nothing\n")
    assert os.listdir(folder) == []


def test_each_takes_the_gpus_that_are_asked_for(folder: Path) -> None:
    made("python a.py\npython b.py\n", gpus=0)
    assert [spec.resources.gpus for spec in load("tasks.toml").tasks] == [0, 0]


def test_what_was_made_of_a_list_runs(folder: Path) -> None:
    deck = Deck(folder, caller_environment())
    made("cd /tmp && pwd > $GPUDECK_RUN_DIR/where\necho 'a b' | tr a c\nexit 3\n")
    ran = deck.run("--gpus", "sim:2")
    assert sorted(ran.states.values()) == ["failed", "succeeded", "succeeded"]


# -- adding to a file --------------------------------------------------------------------------------------------------

MINE = """\
# my notes
[deck]
name = "mine"   # keep this

[[task]]
name = "train"
command = "python old.py"

[vars]
lr = 1
"""


def test_commands_are_added_behind_a_file_that_stays_as_it_is(folder: Path) -> None:
    (folder / "tasks.toml").write_text(MINE)
    (folder / "tasks.toml").chmod(0o640)
    made("python train.py\npython eval.py\n")
    text = (folder / "tasks.toml").read_text()
    assert text.startswith(MINE)
    assert commands() == {"train": "python old.py", "train-2": "python train.py", "eval": "python eval.py"}
    assert (folder / "tasks.toml").stat().st_mode & 0o777 == 0o640


def test_commands_can_be_added_again_and_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        made("python train.py\n")
    assert list(commands()) == ["train", "train-2", "train-3"]
    told = [line.partition(";")[0] for line in capsys.readouterr().out.splitlines()]
    assert told == ["tasks.toml: written, 1 task", "tasks.toml: 1 task added", "tasks.toml: 1 task added"]


def test_a_matrix_that_the_file_cannot_have_is_written_one_by_one(folder: Path) -> None:
    (folder / "tasks.toml").write_text(MINE)
    lines = [f"python train.py --lr {lr}" for lr in range(5)]
    made("\n".join(lines))
    assert list(commands().values()) == ["python old.py", *lines]


def test_a_file_with_windows_line_ends_keeps_them(folder: Path) -> None:
    (folder / "tasks.toml").write_bytes(MINE.replace("\n", "\r\n").encode())
    made("python eval.py\n")
    assert b"\n" not in (folder / "tasks.toml").read_bytes().replace(b"\r\n", b"")


def test_a_file_without_a_last_line_end_is_added_to(folder: Path) -> None:
    (folder / "tasks.toml").write_text(MINE.rstrip())
    made("python eval.py\n")
    assert len(commands()) == 2


def test_a_file_that_has_only_a_deck_is_added_to(folder: Path) -> None:
    (folder / "tasks.toml").write_text('[deck]\nname = "x"\n')
    made("python eval.py\n")
    assert list(commands()) == ["eval"]


def test_a_broken_file_is_left_as_it_is(folder: Path) -> None:
    (folder / "tasks.toml").write_text(MINE + "[[task]\n")
    with pytest.raises(TaskFileError):
        made("python eval.py\n")
    assert (folder / "tasks.toml").read_text() == MINE + "[[task]\n"
    assert os.listdir(folder) == ["tasks.toml"]


def test_a_file_behind_a_link_is_changed_where_it_lies(folder: Path) -> None:
    (folder / "real.toml").write_text(MINE)
    (folder / "tasks.toml").symlink_to("real.toml")
    made("python eval.py\n")
    assert (folder / "tasks.toml").is_symlink()
    assert len(commands("real.toml")) == 2


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (["python -u train.py"], ["train"]),
        (["python -m pkg.mod --x"], ["mod"]),
        (["bash run.sh 1", "bash run.sh 2"], ["run-1", "run-2"]),
        (["torchrun --nproc-per-node 2 ddp.py"], ["ddp"]),
        (["FOO=1 cd a && ./bin/sim -q"], ["sim"]),
        (["t.py --lr 0.1 --s 1", "t.py --lr 0.2 --s 1"], ["t-lr=0.1", "t-lr=0.2"]),
        (["t.py model=a", "t.py model=b"], ["t-model=a", "t-model=b"]),
        (["t.py --out runs/a", "t.py --out runs/b"], ["t-out=a", "t-out=b"]),
        (["t.py", "t.py --fast"], ["t", "t-fast"]),
        (["t.py", "t.py"], ["t", "t-2"]),
        (["true"], ["true"]),
        (["bash -c 'x'"], ["x"]),
        (["./deck.log"], ["task-deck.log"]),
        (["..."], ["task"]),
        (["python -m"], ["python"]),
        (["| broken 'quote"], ["broken"]),
    ],
)
def test_names_tell_commands_apart(lines: list[str], names: list[str]) -> None:
    assert names_for(lines) == names


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0\n\r"), max_size=30)


@given(st.lists(WORDS, min_size=1, max_size=8))
def test_names_of_whatever_commands_are_valid_and_unique(lines: list[str]) -> None:
    found = names_for(lines)
    assert len(set(found)) == len(lines)
    for name in found:
        check_name(name)


@given(lines=st.lists(WORDS, min_size=1, max_size=8))
def test_whatever_the_list_the_file_has_its_commands(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    wanted = read_commands("\n".join(lines)).commands
    path = tmp_path_factory.mktemp("deck") / "tasks.toml"
    if wanted:
        made("\n".join(lines), str(path))
        assert tuple(commands(str(path)).values()) == wanted


def test_a_thousand_random_sweeps_come_back_as_they_were(folder: Path) -> None:
    rng = random.Random(7)
    lines = [f"python t.py --a {rng.random()} --b {rng.randint(0, 9)}" for _ in range(1000)]
    made("\n".join(lines))
    assert list(commands().values()) == lines
    assert tomllib.loads((folder / "tasks.toml").read_text())


def test_a_list_that_is_given_twice_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made("python train.py\npython eval.py\n")
    assert "already" not in capsys.readouterr().err
    made("python eval.py\npython new.py\n")
    warning = "warning: tasks.toml had these commands already, they are in it once more now: eval\n"
    assert warning in capsys.readouterr().err
