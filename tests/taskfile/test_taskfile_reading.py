"""Finding and reading task files, their lines, settings, interpreters, and the small languages inside values."""

from __future__ import annotations

import os
import random
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.core.hours import Clock, Hours
from gpudeck.engine.core.spec import Budget, DeckSettings, Halt
from gpudeck.engine.errors import TaskFileError, UsageError
from tests.inside.taskfile import (
    BadValueError,
    Lines,
    RunOptions,
    deck_gpus,
    default_python,
    duration_s,
    find_task_file,
    halt,
    load,
    load_settings,
    named_python,
    signal_name,
    size_mib,
    slots_per_gpu,
)

HALTS = '"never", "soon,fail=3", "now,fail=1", "soon,fail=30%" or "soon,early=3"'
TASK = '[[task]]\nname = "a"\ncommand = "x"\n'


def problems(path: str, options: RunOptions | None = None) -> list[str]:
    with pytest.raises(TaskFileError) as caught:
        load(path, options)
    return list(caught.value.problems)


def test_a_missing_file_is_one_line():
    assert problems("nothing.toml") == ["nothing.toml: no such file"]


def test_a_folder_is_one_line_with_the_file_inside():
    Path("sub").mkdir()
    assert problems("sub") == ["sub: this is a folder, not a task file"]
    Path("sub/tasks.toml").write_text(TASK)
    assert problems("sub") == ["sub: this is a folder, not a task file: did you mean sub/tasks.toml?"]


def test_an_empty_file_is_one_line():
    Path("tasks.toml").write_text(" \n\n")
    words = "the file is empty: it needs at least one [[task]] with a name and a command"
    assert problems("tasks.toml") == [f"tasks.toml: {words}"]


def test_a_file_that_is_not_utf8_is_one_line():
    Path("tasks.toml").write_bytes(b'[deck]\nname = "gr\xf6\xdfe"\n')
    assert problems("tasks.toml") == ["tasks.toml:2: not UTF-8 text (byte 0xf6)"]


def test_a_file_below_a_file_is_one_line():
    Path("tasks.toml").write_text(TASK)
    assert problems("tasks.toml/x") == ["tasks.toml/x: cannot be read: Not a directory"]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (RunOptions(profile="smok"), ["tasks.toml: --profile smok: there is no [profile.smok]: did you mean smoke?"]),
        (RunOptions(name="a b"), ['tasks.toml: --name "a b": use letters, digits and . _ - +, at most 60']),
        (RunOptions(limit=0), ["tasks.toml: --limit must be at least 1, got 0"]),
        (RunOptions(log_dir=""), ["tasks.toml: --log-dir must not be empty"]),
        (RunOptions(gpus="0,0"), ["tasks.toml: --gpus names GPU 0 twice"]),
        (RunOptions(slots_per_gpu="0"), ["tasks.toml: --slots-per-gpu must be at least 1, got 0"]),
        (
            RunOptions(halt="soon"),
            [f'tasks.toml: --halt must be {HALTS}, got "soon"'],
        ),
        (RunOptions(set={"epoch": "3"}), ["tasks.toml: --set epoch=3: the file has no {epoch}: did you mean epochs?"]),
        (
            RunOptions(set={"seed": "3"}),
            ["tasks.toml: --set seed=3: the file has no {seed}: it is not in [vars], and nothing uses it"],
        ),
        (RunOptions(set={"a-b": "3"}), ["tasks.toml: --set a-b=3: 'a-b' cannot be the name of a placeholder"]),
    ],
)
def test_a_wrong_run_option_is_one_line(options: RunOptions, lines: list[str]):
    Path("tasks.toml").write_text("[vars]\nepochs = 1\n[profile.smoke]\n" + TASK)
    assert problems("tasks.toml", options) == lines


def test_set_gives_a_placeholder_that_vars_do_not_have():
    Path("tasks.toml").write_text('[[task]]\nname = "a"\ncommand = ["x", "{lr}"]\n')
    assert load("tasks.toml", RunOptions(set={"lr": "5e-5"})).tasks[0].work.command == ("x", "5e-5")


def test_set_for_a_key_of_a_matrix_says_what_to_do_instead():
    Path("tasks.toml").write_text('[[task]]\nname = "a{lr}"\ncommand = ["x", "{lr}"]\nmatrix.lr = [1, 2]\n')
    line = "tasks.toml: --set lr=3: lr is a key of matrix (line 4), not of [vars]: choose with --only lr=VALUE"
    assert problems("tasks.toml", RunOptions(set={"lr": "3"})) == [line]


def test_the_deck_table_is_read_without_the_variables_that_vars_are_made_of():
    Path("tasks.toml").write_text('[deck]\nkeep_free = 1\n[vars]\nr = "{env.NOT_SET_HERE}"\n' + TASK)
    assert load_settings("tasks.toml", RunOptions()).keep_free == 1


def test_a_value_of_set_that_is_no_toml_is_text():
    Path("tasks.toml").write_text('[vars]\nr = 1\n[[task]]\nname = "a"\ncommand = ["x", "{r}"]\n')
    for text in ("/data/x y", "a=b", "1 2", "", "[1", "2026-01-02 03:04:05", f"0x{'f' * 9000}"):
        assert load("tasks.toml", RunOptions(set={"r": text})).tasks[0].work.command == ("x", text)


def test_the_file_is_the_one_given_then_the_variable_then_the_nearest(tmp_path: Path):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "tasks.toml").touch()
    assert find_task_file("x.toml", {"GPUDECK_FILE": "y.toml"}, str(below)) == "x.toml"
    assert find_task_file(None, {"GPUDECK_FILE": "y.toml"}, str(below)) == "y.toml"
    assert find_task_file(None, {}, str(below)) == "../../tasks.toml"
    assert find_task_file(None, {}, str(tmp_path)) == "tasks.toml"


def test_no_file_anywhere_is_said(tmp_path: Path):
    words = "no tasks.toml here or above: `gpudeck init` writes one; `gpudeck run -- CMD` needs none"
    with pytest.raises(UsageError, match=f"^{words}$"):
        find_task_file(None, {}, str(tmp_path))


def test_a_deck_whose_file_is_gone_is_found_by_its_state(tmp_path: Path):
    (tmp_path / ".gpudeck" / "tasks").mkdir(parents=True)
    assert find_task_file(None, {}, str(tmp_path)) == "tasks.toml"


@pytest.mark.parametrize("state", ["tasks@night", "tasks@night@second", "tasks.json", "tasks@night.json"])
def test_a_deck_whose_file_is_gone_is_found_by_a_state_of_any_name_and_place(tmp_path: Path, state: str):
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / ".gpudeck" / state).mkdir(parents=True)
    assert find_task_file(None, {}, str(below)) == "../tasks.toml"


def test_the_state_of_a_file_with_another_name_finds_no_deck(tmp_path: Path):
    (tmp_path / ".gpudeck" / "tasks2").mkdir(parents=True)
    (tmp_path / ".gpudeck" / "run@host").mkdir()
    with pytest.raises(UsageError, match=r"no tasks\.toml here or above"):
        find_task_file(None, {}, str(tmp_path))


def test_a_task_file_above_goes_before_the_state_of_one_that_is_gone(tmp_path: Path):
    below = tmp_path / "below"
    (below / ".gpudeck" / "tasks").mkdir(parents=True)
    (tmp_path / "tasks.toml").touch()
    assert find_task_file(None, {}, str(below)) == "../tasks.toml"


def test_a_file_in_a_folder_open_to_all_is_not_taken_from_below(tmp_path: Path):
    shared = tmp_path / "shared"
    (shared / "mine").mkdir(parents=True)
    shared.chmod(0o1777)
    (shared / "tasks.toml").touch()
    with pytest.raises(UsageError):
        find_task_file(None, {}, str(shared / "mine"))
    assert find_task_file(None, {}, str(shared)) == "tasks.toml"


def test_settings_have_defaults_by_the_name_of_the_file(tmp_path: Path):
    project = tmp_path / "noise"
    project.mkdir()
    for name in ("tasks.toml", "other.toml"):
        (project / name).write_text(TASK)
    plain, other = load(str(project / "tasks.toml")), load(str(project / "other.toml"))
    assert (plain.stem, plain.settings.name, plain.settings.log_dir) == ("tasks", "noise", f"{project}/logs")
    assert (other.stem, other.settings.name, other.settings.log_dir) == ("other", "other", f"{project}/logs/other")
    assert plain.settings.state_dir == f"{project}/.gpudeck"
    assert plain.settings == DeckSettings("noise", log_dir=f"{project}/logs", state_dir=f"{project}/.gpudeck")


def test_every_setting_is_read():
    Path("tasks.toml").write_text(
        """[deck]
name = "n"
gpus = [7, 6]
slots_per_gpu = { "6-7" = 2 }
cpu_slots = 3
no_gpu = "fail"
log_dir = "/l"
state_dir = "/s"
skip_existing = false
rerun_stale = true
order = "longest"
round_barrier = "ended"
halt = "soon,fail=30%"
begin = "2026-12-01 22:00"
between = "20:00-8:30"
disk = "80GiB"
foreign = "fit"
foreign_memory = "512MiB"
foreign_quiet = "5m"
keep_free = 1
gpu_quarantine = 0
gang_patience = 30
reload = "off"
[budget]
gpu_hours = 100
until = "2026-12-24 18:00"
"""
        + TASK
    )
    expected = DeckSettings(
        "n", ("7", "6"), {"6": 2, "7": 2}, 3, "fail", "/l", "/s", False, True, "longest",
        Halt("soon", fail_percent=30.0), Clock(22, 0, (2026, 12, 1)), Hours(Clock(20, 0), Clock(8, 30)),
        81920, "fit", 512, 300.0, 1, 0, 30.0, "off", "local",
        budget=Budget(100.0, Clock(18, 0, (2026, 12, 24))),
    )  # fmt: skip
    assert load_settings("tasks.toml", RunOptions()) == expected == load("tasks.toml").settings
    assert load("tasks.toml").tasks[0].barrier == "ended"


def test_run_options_go_over_the_deck_table(tmp_path: Path):
    Path("tasks.toml").write_text('[deck]\ngpus = "0"\nlog_dir = "a"\nhalt = "never"\n' + TASK)
    given = RunOptions(gpus="sim:3", log_dir="b", slots_per_gpu="auto", skip_existing=False, fail_fast=True, name="x")
    made = load("tasks.toml", given)
    settings = made.settings
    assert (settings.gpus, settings.slots_per_gpu, settings.skip_existing) == (3, "auto", False)
    assert settings.log_dir == f"{tmp_path}/b"
    assert settings.halt == Halt("soon", fail=1)
    assert made.stem == "tasks@x"
    assert made.places["gpus"] == "--gpus"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30), ("6h", 21600), ("1h30m", 5400), ("2d", 172800), ("1.5h", 5400), (90, 90), ("90", 90), (0.5, 0.5),
        ("250ms", 0.25),
    ],
)  # fmt: skip
def test_durations(text: object, seconds: float):
    assert duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "h", "1x", "-1s", "1h 30m", -1, True, float("nan"), float("inf"), [], "1H", 10**400, "9" * 400]
)
def test_what_is_no_duration(text: object):
    with pytest.raises(BadValueError):
        duration_s(text)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("1GiB", 1024), ("40GB", 38147), ("512MiB", 512), ("16G", 16384), ("1.5GiB", 1536), ("1KB", 1),
        ("2 TiB", 2097152), ("2TB", 1907349), ("1T", 1048576),
    ],
)  # fmt: skip
def test_sizes_are_rounded_up_to_mib(text: str, mib: int):
    assert size_mib(text) == mib


@pytest.mark.parametrize("value", [40, 1.5, "40", "GiB", "1XB", "-1GiB", True, None, "9" * 400 + "GiB"])
def test_what_is_no_size(value: object):
    with pytest.raises(BadValueError):
        size_mib(value)


def test_signals_go_by_either_name():
    assert [signal_name(name) for name in ("TERM", "SIGTERM", "usr1", "RTMIN")] == ["TERM", "TERM", "USR1", "RTMIN"]


def test_gpus_of_a_deck():
    assert [deck_gpus(value) for value in ("all", "none", "0-2,6", [7, "6"], ["GPU-5f2a"], "sim:4", "3")] == [
        "all", "none", ("0", "1", "2", "6"), ("7", "6"), ("GPU-5f2a",), 4, ("3",),
    ]  # fmt: skip


def test_slots():
    assert [slots_per_gpu(value) for value in (2, "auto", {"0-1": 2, "GPU-5f": 1})] == [
        2, "auto", {"0": 2, "1": 2, "GPU-5f": 1},
    ]  # fmt: skip


def test_halt_has_the_words_of_gnu_parallel():
    assert [halt(text) for text in ("never", "soon,fail=3", "now,fail=1", "soon, fail=30%", "soon,early=3")] == [
        None, Halt("soon", fail=3), Halt("now", fail=1), Halt("soon", fail_percent=30.0), Halt("soon", early=3),
    ]  # fmt: skip


def environment(folder: Path, *, conda: bool = False) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "conda-meta").mkdir() if conda else (folder / "pyvenv.cfg").touch()
    return folder


def test_the_default_python_is_the_environment_beside_the_file_then_the_active_one(tmp_path: Path):
    active, conda = environment(tmp_path / "active"), environment(tmp_path / "conda", conda=True)
    environ = {"VIRTUAL_ENV": str(active), "CONDA_PREFIX": str(conda), "CONDA_DEFAULT_ENV": "torch"}
    project = tmp_path / "project"
    project.mkdir()
    assert default_python(str(project), environ).env == (("VIRTUAL_ENV", str(active)),)
    del environ["VIRTUAL_ENV"]
    assert default_python(str(project), environ) == (f"{conda}/bin/python", (("CONDA_PREFIX", str(conda)),))
    environ["CONDA_DEFAULT_ENV"] = "base"
    assert default_python(str(project), environ) == (sys.executable, ())
    environment(project / ".venv")
    assert default_python(str(project), environ).path == f"{project}/.venv/bin/python"


def test_python_may_be_an_environment_an_interpreter_a_command_or_a_conda_name(tmp_path: Path):
    venv = environment(tmp_path / "venv")
    conda = environment(tmp_path / "miniconda3" / "envs" / "torch", conda=True)
    environ = {"HOME": str(tmp_path), "PATH": f"{venv}/bin"}
    expected = (f"{venv}/bin/python", (("VIRTUAL_ENV", str(venv)),))
    for name in ("venv", str(venv), "venv/bin/python", "python"):
        assert named_python(name, str(tmp_path), environ) == expected
    for name in ("conda:torch", str(conda), f"{conda}/bin/python"):
        assert named_python(name, "/", environ) == (f"{conda}/bin/python", (("CONDA_PREFIX", str(conda)),))


TRICKY = '''# [[task]] in a comment
[deck]
name = "x # [[task]] = 1"   # [deck]
"quoted key".'and other' = """
[[task]]
"""
halt = \'\'\'
gpus = 1\'\'\'
list = [ # one
  "a]", [1, 2],
  [[1]],
  { x = "}" },
]
[ task-like . "x" ]
y = 1
[[task]]
name = "a"
matrix.seed = [1,
  2]
  [task.env]
  A = """quotes "" inside \\\\"""
  [[task.more]]
  b = 1
[[ task ]]
env = { A = "1" }
'''


def test_lines_are_right_about_strings_comments_and_brackets():
    tomllib.loads(TRICKY)
    lines = Lines(TRICKY)
    found = {
        ("deck",): 2, ("deck", "name"): 3, ("deck", "quoted key", "and other"): 4, ("deck", "halt"): 7,
        ("deck", "list"): 9,
        ("task-like", "x"): 14, ("task-like", "x", "y"): 15, ("task", 0): 16, ("task", 0, "name"): 17,
        ("task", 0, "matrix"): 18, ("task", 0, "matrix", "seed"): 18, ("task", 0, "env"): 20,
        ("task", 0, "env", "A"): 21,
        ("task", 0, "more", 0, "b"): 23, ("task", 1): 24, ("task", 1, "env"): 25, ("task", 1, "env", "A"): 25,
        ("nothing",): 0,
    }  # fmt: skip
    assert {path: lines.of(*path) for path in found} == found
    assert lines.has_header("task", 0, "env")
    assert not lines.has_header("task", 1, "env")


@given(st.randoms(use_true_random=False))
def test_every_key_of_a_random_file_is_found_in_its_line(source: random.Random):
    """Each value is its own line number, so the parser tells where every key stands."""
    text = ""
    for _ in range(source.randint(1, 12)):
        number = text.count("\n") + 1
        key = f"k{number}"
        text += source.choice(
            [
                f"[t{number}]\n{key} = {number + 1}\n",
                f"[[task]]\n{key} = {number + 1} # x = 'y'\n",
                f"[t{number}.u]\nz.{key} = {number + 1}\n",
                f'# """\n\n[t{number}]\na = """\n[[task]]\n\\""""\n{key} = {number + 6}\n',
                f"[t{number}]\nb = [\n '#',\n [1], # ]\n]\n{key} = {number + 5}\n",
            ]
        )
    lines = Lines(text)
    data = tomllib.loads(text)
    entries: list[object] = data.pop("task", [])
    tables = [((name,), table) for name, table in data.items()]
    tables += [(("task", index), table) for index, table in enumerate(entries)]
    for path, table in tables:
        for key, value in table.items():
            if isinstance(value, int):
                assert lines.of(*path, key) == value


def test_the_environment_given_is_what_placeholders_see():
    Path("tasks.toml").write_text('[[task]]\nname = "a"\ncommand = ["{env.X}"]\n')
    assert load("tasks.toml", environ={"X": "1", "PATH": os.environ["PATH"]}).tasks[0].work.command == ("1",)
