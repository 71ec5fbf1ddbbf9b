"""Tasks are appended to a task file whose text is otherwise left as it is."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudeck.engine.errors import DeckError, TaskFileError, UsageError
from tests.inside.live import Added, Addition
from tests.inside.live import add_add as add
from tests.inside.live import live_add as module
from tests.inside.live import load_load as load

FILE = """\
# what this is about
[vars]
lr = 0.1   # the usual one
[[task]]   # trains
name = "train-{rate}-{kind}"
command = ["python", "train.py", "--rate", "{rate}", "--lr", "{lr}"]
matrix.rate = [0.50, 1e-4]
matrix.kind = ["sym", "1e3"]
outputs = ["out/{task}.pt"]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.toml"
    path.write_text(FILE)
    return path


def added(path: Path, addition: Addition) -> Added:
    return add(str(path), [addition], environ={})


def command_of(path: Path, name: str) -> object:
    return next(spec.work.command for spec in load(str(path), environ={}).tasks if spec.name == name)


def test_a_command_becomes_a_task_named_after_its_script(path: Path):
    assert added(path, Addition(["python", "eval.py", "--x", 'a "b"'])).names == ("eval",)
    assert command_of(path, "eval") == ("python", "eval.py", "--x", 'a "b"')


def test_what_was_there_keeps_every_byte(path: Path):
    added(path, Addition(["true"]))
    assert path.read_text() == FILE + '\n[[task]]\nname = "true"\ncommand = ["true"]\n'


def test_names_are_made_unique(path: Path):
    names = [added(path, Addition(["python", "eval.py"])).names[0] for _ in range(3)]
    assert names == ["eval", "eval-2", "eval-3"]


def test_a_name_that_was_asked_for_and_is_taken_is_refused(path: Path):
    before = path.read_text()
    added(path, Addition(["true"], name="mine"))
    with pytest.raises(UsageError, match="has a task of this name: give another, or `gpudeck retry mine`"):
        added(path, Addition(["false"], name="mine"))
    assert path.read_text().count("mine") == before.count("mine") + 1


def test_a_value_of_the_matrix_makes_another_row_of_the_same_entry(path: Path):
    assert added(path, Addition(like="train-0.50-sym", values={"rate": "0.75"})).names == ("train-0.75-sym",)
    task = next(spec for spec in load(str(path), environ={}).tasks if spec.name == "train-0.75-sym")
    assert (task.entry, task.params) == ("train-{rate}-{kind}", {"rate": "0.75", "kind": "sym"})


def test_numbers_stay_as_they_were_written_and_text_stays_text(path: Path):
    text = added(path, Addition(like="train-1e-4-1e3", values={"kind": "new"})).text
    assert "rate = [1e-4]" in text
    added(path, Addition(like="train-0.50-1e3", values={"lr": "1"}))
    assert "0.50" in str(command_of(path, "train-0.50-1e3-lr=1"))


def test_a_variable_is_put_into_the_new_task_alone(path: Path):
    assert added(path, Addition(like="train-0.50-sym", values={"lr": "0.05"})).names == ("train-0.50-sym-lr=0.05",)
    assert command_of(path, "train-0.50-sym-lr=0.05") == (
        "python", "train.py", "--rate", "0.50", "--lr", "0.05",
    )  # fmt: skip
    assert command_of(path, "train-0.50-sym") == ("python", "train.py", "--rate", "0.50", "--lr", "0.1")


def test_keys_of_a_task_may_be_set(path: Path):
    added(path, Addition(like="train-0.50-sym", values={"gpus": "2", "env.SEED": "3", "timeout": "1h"}))
    task = load(str(path), environ={}).tasks[-1]
    assert (task.resources.gpus, task.work.env, task.policy.timeout_s) == (2, (("SEED", "3"),), 3600.0)


@pytest.mark.parametrize(
    ("addition", "words"),
    [
        (Addition(like="train-0.50-sim"), "did you mean train-0.50-sym"),
        (Addition(like="train-0.50-sym", values={"gpu": "1"}), "did you mean gpus"),
        (Addition(like="train-0.50-sym", values={"rat": "1"}), "did you mean rate"),
        (Addition(["x"], values={"gpus": "-1"}), "gpus must be at least 0"),
        (Addition(["x"], name="a b"), "a space"),
        (Addition(["x"], like="train-0.50-sym"), "either a command"),
        (Addition(), "either a command"),
    ],
)
def test_what_cannot_be_added_changes_nothing(path: Path, addition: Addition, words: str):
    with pytest.raises(DeckError, match=words):
        added(path, addition)
    assert path.read_text() == FILE
    assert os.listdir(path.parent) == ["tasks.toml"]


def test_a_broken_file_is_not_added_to(path: Path):
    path.write_text("[[task]\n")
    with pytest.raises(TaskFileError):
        added(path, Addition(["true"]))
    assert path.read_text() == "[[task]\n"


def test_an_edit_made_meanwhile_is_not_lost(path: Path, monkeypatch: pytest.MonkeyPatch):
    original: Callable[..., object] = module.load

    def edit_and_load(*arguments: object, **named: object) -> object:
        path.write_text(FILE + "# mine\n")
        return original(*arguments, **named)

    monkeypatch.setattr(module, "load", edit_and_load)
    with pytest.raises(UsageError, match="changed meanwhile"):
        added(path, Addition(["true"]))
    assert path.read_text() == FILE + "# mine\n"


def test_owner_mode_link_and_line_ends_stay(tmp_path: Path):
    target = tmp_path / "real.toml"
    target.write_bytes(FILE.rstrip("\n").replace("\n", "\r\n").encode())
    owner = (65534, 65534) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(target, *owner)
    target.chmod(0o640)
    path = tmp_path / "tasks.toml"
    path.symlink_to(target)
    added(path, Addition(["true"]))
    assert path.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert (target.stat().st_uid, target.stat().st_gid) == owner
    content = target.read_bytes()
    assert content.count(b"\n") == content.count(b"\r\n")
    assert command_of(path, "true") == ("true",)
