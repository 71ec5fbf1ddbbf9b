"""Which changes make a task another one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudeck.engine.core.spec import TaskSpec
from gpudeck.engine.errors import TaskFileError
from tests.inside.taskfile import load

BASE = 'name = "a"\ncommand = ["train", "--lr", "0.1"]\n'


def task(folder: Path, body: str, **environ: str) -> TaskSpec:
    path = folder / "tasks.toml"
    path.write_text(f"[[task]]\n{body}")
    return load(str(path), environ={"PATH": os.environ["PATH"], **environ}).tasks[0]


def fingerprint(folder: Path, body: str, **environ: str) -> str:
    return task(folder, body, **environ).fingerprint


@pytest.mark.parametrize(
    "more",
    [
        "gpus = 2", 'cwd = "/"', "retries = 3", 'timeout = "1h"', 'resume_command = "x"', 'tags = ["t"]', "cpus = 4",
        'on_oom = [{ env = { B = "1" } }]', 'env_required = ["HF_TOKEN"]', 'outputs = ["o"]', 'env.WANDB_MODE = "off"',
        'env.NCCL_DEBUG = "INFO"', 'env.HF_TOKEN = "x"', 'env.OMP_NUM_THREADS = "1"', "priority = 1", "env = {}",
        'fingerprint_ignore = ["X"]', 'launch = "torchrun"',
    ],
)  # fmt: skip
def test_it_stays_when_only_the_circumstances_change(tmp_path: Path, more: str):
    assert fingerprint(tmp_path, BASE + more) == fingerprint(tmp_path, BASE)


@pytest.mark.parametrize(
    "body",
    [
        'name = "a"\ncommand = ["train", "--lr", "0.2"]\n',
        'name = "a"\ncommand = ["train", "--lr 0.1"]\n',
        'name = "a"\ncommand = "train --lr 0.1"\n',
        BASE + 'env.X = "1"',
        BASE + "env.X = false",
        BASE + 'fingerprint_ignore = []\nenv.WANDB_MODE = "off"',
    ],
)
def test_it_changes_with_the_work(tmp_path: Path, body: str):
    assert fingerprint(tmp_path, body) != fingerprint(tmp_path, BASE)


def test_another_name_is_the_same_work(tmp_path: Path):
    assert fingerprint(tmp_path, BASE.replace('"a"', '"b"')) == fingerprint(tmp_path, BASE)


def test_the_order_of_variables_does_not_matter(tmp_path: Path):
    one, other = (fingerprint(tmp_path, BASE + env) for env in ('env = {A="1",B="2"}', 'env = {B="2",A="1"}'))
    assert one == other


def test_what_is_filled_in_at_the_start_stays_symbolic(tmp_path: Path):
    names = ("python", "attempt", "gpu_ids", "run_dir", "log_dir", "num_gpus", "cpus")
    body = 'name = "a"\ncommand = [' + ", ".join(f'"{{{name}}}"' for name in names) + "]\n"
    moved = tmp_path / "moved"
    moved.mkdir()
    assert fingerprint(tmp_path, body + "gpus = 1") == fingerprint(moved, body + 'gpus = 2\npython = "python3"')


def test_a_literal_brace_is_not_a_placeholder(tmp_path: Path):
    symbolic, literal = (f'name = "a"\ncommand = ["{text}"]\n' for text in ("{attempt}", "{{attempt}}"))
    assert fingerprint(tmp_path, symbolic) != fingerprint(tmp_path, literal)


def test_a_secret_in_the_command_is_neither_kept_nor_counted(tmp_path: Path):
    body = 'name = "a"\ncommand = ["x", "--key", "{env.API_KEY}"]\n'
    made = task(tmp_path, body, API_KEY="sesame")
    assert "sesame" not in repr(made)
    assert made.fingerprint == fingerprint(tmp_path, body, API_KEY="other")


def test_another_variable_in_the_command_counts(tmp_path: Path):
    body = 'name = "a"\ncommand = ["x", "{env.DATA}"]\n'
    assert fingerprint(tmp_path, body, DATA="1") != fingerprint(tmp_path, body, DATA="2")


def test_fingerprint_files_add_their_contents(tmp_path: Path):
    config = tmp_path / "base.yaml"
    config.write_text("lr: 1")
    first = fingerprint(tmp_path, BASE + 'fingerprint_files = ["*.yaml"]')
    config.write_text("lr: 2")
    assert fingerprint(tmp_path, BASE + 'fingerprint_files = ["*.yaml"]') != first


def test_another_image_is_other_work(tmp_path: Path):
    plain, one, two = (fingerprint(tmp_path, BASE + body) for body in ("", 'image = "a:1"', 'image = "a:2"'))
    assert len({plain, one, two}) == 3


def test_links_in_a_circle_are_not_followed_for_ever(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).symlink_to(".")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "lr.yaml").write_text("lr: 1")
    body = BASE + 'fingerprint_files = ["**/*.yaml"]'
    first = fingerprint(tmp_path, body)
    (tmp_path / "below" / "lr.yaml").write_text("lr: 2")
    assert fingerprint(tmp_path, body) != first


def test_env_file_that_is_no_file_is_refused_unread(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    for path in ("fifo", "/dev/zero"):
        with pytest.raises(TaskFileError, match=f"env_file names .*{path}, which is no file"):
            task(tmp_path, BASE + f'env_file = "{path}"')
    assert task(tmp_path, BASE + 'env_file = "/dev/null"').work.env == ()


def test_env_file_counts_below_env(tmp_path: Path):
    (tmp_path / ".env").write_text("# comment\nexport A=1\nB='two words' \nC = 3 # three\n\n")
    made = task(tmp_path, BASE + 'env_file = ".env"\nenv = { A = "9" }')
    assert dict(made.work.env) == {"B": "two words", "C": "3", "A": "9"}


def test_a_bad_line_in_env_file_is_named(tmp_path: Path):
    (tmp_path / ".env").write_text("A=1\nnonsense\n")
    with pytest.raises(TaskFileError, match=r"whose line 2 is not NAME=value"):
        task(tmp_path, BASE + 'env_file = ".env"')


def test_env_file_may_not_say_which_gpus_a_task_sees(tmp_path: Path):
    (tmp_path / ".env").write_text("A=1\nCUDA_VISIBLE_DEVICES=0\n")
    with pytest.raises(TaskFileError, match=r"whose line 2 may not set CUDA_VISIBLE_DEVICES, gpudeck does"):
        task(tmp_path, BASE + 'env_file = ".env"')


def test_it_is_the_same_under_every_python(tmp_path: Path):
    """A change of this value would rerun everybody's finished tasks."""
    body = 'name = "a"\ncommand = ["train", "--größe", "0.50"]\nenv = { B = "2", A = "1", C = false }'
    assert fingerprint(tmp_path, body) == "bc9a65687ab56a1178f425aaeb6a92d8"
