"""From a task file to its tasks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.core.spec import DeckFile, Prune, TaskSpec, Watch
from gpudeck.engine.errors import TaskFileError
from tests.inside.taskfile import Box, RunOptions, load, without_markers

ENVIRON = {"HOME": "/home/me", "PATH": os.environ["PATH"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def deck(folder: Path, text: str, options: RunOptions | None = None, box: Box | None = None) -> DeckFile:
    path = folder / "tasks.toml"
    path.write_text(text)
    return load(str(path), options, box, environ=ENVIRON)


def tasks(folder: Path, body: str, options: RunOptions | None = None) -> list[TaskSpec]:
    return list(deck(folder, f'[[task]]\nname = "a"\ncommand = "true"\n{body}\n', options).tasks)


def commands(folder: Path, command: str, rest: str = "", head: str = "") -> list[object]:
    made = deck(folder, f"{head}\n[[task]]\ncommand = {command}\n{rest}\n")
    return [
        without_markers(task.work.command)
        if isinstance(task.work.command, str)
        else tuple(map(without_markers, task.work.command))
        for task in made.tasks
    ]


NOISE = """
[vars]
data_root = "/data/caltech-101"

[defaults]
timeout = "6h"
retries = 1

[[task]]
name = "train-{noise_type}-{noise_rate}"
command = [
  "{python}", "train.py",
  "--root", "{data_root}", "--noise-type", "{noise_type}", "--noise-rate", "{noise_rate}",
  "--output-dir", "output/caltech101/NLPrompt/rn50_16shots/noise_{noise_type}_{noise_rate}/seed1",
]
matrix.noise_type = ["sym", "asym"]
matrix.noise_rate = [0.125, 0.25, 0.375, 0.50, 0.625, 0.75]
outputs = ["output/caltech101/NLPrompt/rn50_16shots/noise_{noise_type}_{noise_rate}/seed1/model.pt"]
"""


def test_two_noise_types_and_six_rates_make_twelve_tasks_type_outermost(folder: Path):
    names = [task.name for task in deck(folder, NOISE).tasks]
    rates = ["0.125", "0.25", "0.375", "0.50", "0.625", "0.75"]
    assert names == [f"train-{kind}-{rate}" for kind in ("sym", "asym") for rate in rates]


def test_a_noise_task_has_its_values_in_command_outputs_and_params(folder: Path):
    task = deck(folder, NOISE).tasks[9]
    out = "output/caltech101/NLPrompt/rn50_16shots/noise_asym_0.50/seed1"
    assert task.work.command[1:] == (
        "train.py", "--root", "/data/caltech-101", "--noise-type", "asym", "--noise-rate", "0.50", "--output-dir", out,
    )  # fmt: skip
    assert task.outputs == (f"{folder}/{out}/model.pt",)
    assert task.params == {"noise_type": "asym", "noise_rate": "0.50"}
    assert (task.policy.timeout_s, task.policy.retries, task.resources.gpus) == (21600.0, 1, 1)
    assert (task.entry, task.position, task.line) == ("train-{noise_type}-{noise_rate}", 9, 9)


def test_tasks_of_an_entry_share_resources_and_policy(folder: Path):
    first, second, *_ = deck(folder, NOISE).tasks
    assert first.resources is second.resources
    assert first.policy is second.policy


def test_data_root_is_overridden_by_set(folder: Path):
    made = deck(folder, NOISE, RunOptions(set={"data_root": "/elsewhere"}))
    assert "/elsewhere" in made.tasks[0].work.command


def test_numbers_appear_as_the_file_writes_them(folder: Path):
    made = commands(folder, '["x", "{v}"]', 'name = "t-{v}"\nmatrix.v = [1e-4, 0.50, 5e-5, 1_000, 0x10, +3.0, inf]')
    assert made == [("x", text) for text in ("1e-4", "0.50", "5e-5", "1000", "16", "+3.0", "inf")]


def test_booleans_lists_and_tables_become_json_words(folder: Path):
    head = '[vars]\nflag = true\nlayers = [1, 0.50, "a b"]\ntable = { a = [true], "b c" = 1e-3 }\n'
    made = commands(folder, '["x", "{flag}", "{layers}", "{table}"]', 'name = "a"', head)
    assert made == [("x", "true", '[1,0.50,"a b"]', '{"a":[true],"b c":1e-3}')]


@pytest.mark.parametrize(
    "text",
    [
        "${HOME}", "${v}", "awk '{print $1}'", '{"a": 1}', "{a:b}", "{}", "{ v }", "{1}", "{v", "v}", "%s %d %%",
        "{a-b}", "{a.b}",
    ],
)  # fmt: skip
def test_braces_that_are_no_placeholder_are_left_alone(folder: Path, text: str):
    assert commands(folder, f"'''{text}'''", 'name = "a"', "[vars]\nv = 1") == [text]


@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="{"), min_size=1))
def test_text_without_opening_braces_is_unchanged(tmp_path_factory: pytest.TempPathFactory, text: str):
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    made = commands(tmp_path_factory.mktemp("deck"), f'["x", "{quoted}"]', 'name = "a"')
    assert made == [("x", text)]


def test_doubled_braces_are_one_literal_brace(folder: Path):
    assert commands(folder, '["{{v}}", "{{ v }}", "{v}", "{{{v}}}"]', 'name = "a"', "[vars]\nv = 1") == [
        ("{v}", "{{ v }}", "1", "{{v}}")
    ]


def test_percent_signs_beside_placeholders_stay(folder: Path):
    rest = 'name = "a-{i}-{j}"\nmatrix.i = [1]\nmatrix.j = [2]'
    assert commands(folder, '["100%{i}%s", "%{i}%{j}%d"]', rest) == [("100%1%s", "%1%2%d")]


def test_values_in_a_text_command_are_quoted_for_the_shell(folder: Path):
    rest = """name = "a{i}"\nmatrix.i = [1]\nmatrix.text = ["it's; rm -rf $HOME"]"""
    assert commands(folder, '"echo {text} {i}"', rest) == ["""echo 'it'"'"'s; rm -rf $HOME' 1"""]


def test_a_hash_behind_a_value_begins_no_comment(folder: Path):
    with pytest.raises(TaskFileError, match="inside quotes"):
        commands(folder, """'x {n}#"{v}"'""", 'name = "a"\nmatrix.n = [1]\nmatrix.v = ["a b"]')


def test_a_value_that_needs_no_quotes_may_stand_inside_them(folder: Path):
    rest = 'name = "a{i}"\nmatrix.i = [1, 2]'
    assert commands(folder, """'''python -c "print({i})" # it's fine\necho {i}'''""", rest) == [
        f"""python -c "print({i})" # it's fine\necho {i}""" for i in (1, 2)
    ]


def test_a_list_may_hold_placeholders_in_some_of_its_items(folder: Path):
    body = '[[task]]\nname = "{s}"\ncommand = "true"\nmatrix.s = [1, 2]\ntags = ["sweep", "seed-{s}"]\n'
    assert [task.tags for task in deck(folder, body).tasks] == [("sweep", "seed-1"), ("sweep", "seed-2")]


def test_a_lone_placeholder_takes_the_type_of_its_value(folder: Path):
    made = deck(
        folder,
        '[vars]\nn = 2\nslots = [0, 1]\nlong = "2h"\n[[task]]\nname = "a-{p}"\ncommand = "true"\nmatrix.p = [5, -1]\n'
        'gpus = "{n}"\ngpu_ids = "{slots}"\npriority = "{p}"\ntimeout = "{long}"\n',
    )
    assert [task.priority for task in made.tasks] == [5, -1]
    assert made.tasks[0].resources.gpus == 2
    assert made.tasks[0].resources.gpu_ids == ("0", "1")
    assert made.tasks[0].policy.timeout_s == 7200


def test_a_whole_number_made_of_text_is_a_number(folder: Path):
    made = tasks(folder, 'priority = "-{n}0"\n[vars]\nn = 2')
    assert made[0].priority == -20


def test_a_lone_placeholder_in_watch_is_a_number_where_one_belongs_and_text_elsewhere(folder: Path):
    watch = '{ idle_gpu = "{quiet}", idle_below = "{below}", pattern = "{word}" }'
    (made,) = tasks(folder, f"watch = {watch}\n[vars]\nquiet = 90\nbelow = 5\nword = 404")
    assert made.extras.watch == Watch(idle_gpu_s=90.0, idle_below=5, pattern="404")


def test_a_lone_placeholder_can_be_a_whole_command(folder: Path):
    head = '[vars]\nlisted = ["python", "a b.py", 3]\nshell = "ls | wc -l"\n'
    assert commands(folder, '"{listed}"', 'name = "a"', head) == [("python", "a b.py", "3")]
    assert commands(folder, '"{shell}"', 'name = "a"', head) == ["ls | wc -l"]


def test_an_axis_may_be_a_list_in_vars(folder: Path):
    text = '[vars]\nseeds = [1, 2, 3]\n[[task]]\nname = "s{seed}"\ncommand = "true"\nmatrix.seed = "{seeds}"\n'
    assert [task.name for task in deck(folder, text).tasks] == ["s1", "s2", "s3"]
    assert [task.name for task in deck(folder, text, RunOptions(set={"seeds": "[7]"})).tasks] == ["s7"]


def test_an_axis_of_tables_keeps_its_keys_paired(folder: Path):
    body = """[[task]]
name = "{dataset}-{seed}"
command = ["train", "{dataset}", "{classes}"]
matrix.case = [{ dataset = "pets", classes = 37 }, { dataset = "flowers", classes = 102 }]
matrix.seed = [1, 2]
"""
    made = deck(folder, body).tasks
    assert [task.work.command for task in made] == [
        ("train", "pets", "37"), ("train", "pets", "37"), ("train", "flowers", "102"), ("train", "flowers", "102"),
    ]  # fmt: skip
    assert made[2].params == {"dataset": "flowers", "classes": "102", "seed": "1"}


def test_include_and_exclude_work_as_in_github_actions(folder: Path):
    """The example of the workflow syntax reference: fruit and animals."""
    body = """[[task]]
name = "{fruit}-{animal}"
command = ["x", "{fruit}", "{animal}"]
matrix.fruit = ["apple", "pear"]
matrix.animal = ["cat", "dog"]
matrix.include = [
  { color = "green" },
  { color = "pink", animal = "cat" },
  { fruit = "apple", shape = "circle" },
  { fruit = "banana", animal = "-" },
  { fruit = "banana", animal = "cat" },
]
"""
    made = [dict(task.params) for task in deck(folder, body).tasks]
    assert made == [
        {"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"},
        {"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"},
        {"fruit": "pear", "animal": "cat", "color": "pink"},
        {"fruit": "pear", "animal": "dog", "color": "green"},
        {"fruit": "banana", "animal": "-"},
        {"fruit": "banana", "animal": "cat"},
    ]


def test_exclude_takes_out_every_combination_that_has_its_values(folder: Path):
    body = """[[task]]
name = "{a}-{b}-{c}"
command = "true"
matrix.a = [0.5, 1]
matrix.b = ["x", "y"]
matrix.c = [true, false]
matrix.exclude = [{ a = 0.50, b = "x" }, { c = true, a = 1 }]
"""
    names = [task.name for task in deck(folder, body).tasks]
    assert names == ["0.5-y-true", "0.5-y-false", "1-x-false", "1-y-false"]


def test_a_combination_with_a_list_for_a_value_can_be_taken_out(folder: Path):
    body = "matrix.betas = [[0.9, 0.95], [0.9, 0.999]]\nmatrix.exclude = [{ betas = [0.90, 0.95] }]"
    assert [dict(task.params) for task in tasks(folder, body)] == [{"betas": "[0.9,0.999]"}]


def test_a_large_matrix_with_thousands_of_changes_is_made_at_once(folder: Path):
    """Each change compared with each combination would take minutes."""
    pairs = [f"{{ i = {at % 300}, j = {500 + at} }}" for at in range(3000)]
    more = [f"{{ i = 299, j = {at % 300}, k = {at} }}" for at in range(3000)]
    body = f"""[[task]]
name = "{{i}}-{{j}}-{{k}}"
command = "true {{k}}"
matrix.i = {list(range(300))}
matrix.j = {list(range(300))}
matrix.exclude = [{",".join([*pairs, *(f"{{ i = {at} }}" for at in range(299))])}]
matrix.include = [{",".join(more)}]
"""
    assert [task.name for task in deck(folder, body).tasks] == [f"299-{at}-{2700 + at}" for at in range(300)]


def test_a_matrix_of_includes_alone_is_these_combinations(folder: Path):
    body = '[[task]]\nname = "{a}"\ncommand = "true"\nmatrix.include = [{ a = 1 }, { a = 2 }]\n'
    assert [task.name for task in deck(folder, body).tasks] == ["1", "2"]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_matrix_makes_the_product_of_its_axes_with_unique_names(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
):
    axes = "".join(f"matrix.a{at} = {list(range(size))}\n" for at, size in enumerate(sizes))
    name = "-".join(f"{{a{at}}}" for at in range(len(sizes)))
    made = deck(tmp_path_factory.mktemp("deck"), f'[[task]]\nname = "{name}"\ncommand = "true"\n{axes}').tasks
    product = 1
    for size in sizes:
        product *= size
    assert len({task.name for task in made}) == len(made) == product
    assert [task.position for task in made] == list(range(product))


def test_shards_are_numbered_copies_with_their_number_in_the_environment(folder: Path):
    made = tasks(folder, "shards = 2")
    assert [task.name for task in made] == ["a-shard0", "a-shard1"]
    assert made[1].work.env == (("GPUDECK_SHARD", "1"), ("GPUDECK_SHARDS", "2"))
    assert made[1].params == {"shard": "1"}
    assert made[0].fingerprint != made[1].fingerprint


def test_shards_by_gpus_follow_the_box_once(folder: Path):
    text = '[[task]]\nname = "gen"\ncommand = ["g", "{shard}", "{shards}"]\nshards = "gpus"\n'
    first = deck(folder, text, box=Box(gpu_count=4))
    assert len(first.tasks) == 4
    assert first.fixed_shards == {"gen": 4}
    later = deck(folder, text, box=Box(gpu_count=3, fixed_shards=first.fixed_shards))
    assert [task.work.command for task in later.tasks][3] == ("g", "3", "4")


def test_shards_by_gpus_are_not_fixed_before_the_gpus_are_known(folder: Path):
    made = deck(folder, '[[task]]\nname = "gen"\ncommand = "g"\nshards = "gpus"\n', box=Box())
    assert (len(made.tasks), made.fixed_shards) == (1, {})


def test_a_need_of_a_task_with_shards_means_all_of_them(folder: Path):
    text = '[[task]]\nname = "gen"\ncommand = "g"\nshards = 3\n[[task]]\nname = "b"\ncommand = "x"\nneeds = ["gen"]\n'
    assert deck(folder, text).tasks[-1].needs == ("gen-shard[0-9]*",)


def test_watch_may_hold_placeholders(folder: Path):
    made = tasks(
        folder, 'watch = { silent = "{minutes}m", pattern = "{bad}" }\nmatrix = { minutes = [5], bad = ["nan"] }'
    )
    assert made[0].extras.watch == Watch(silent_s=300.0, pattern="nan")


def test_include_may_give_values_to_keys_of_the_same_name(folder: Path):
    body = 'matrix.n = [1]\ntimeout = "{timeout}"\n[[task.matrix.include]]\nn = 1\ntimeout = "6h"'
    assert tasks(folder, body)[0].policy.timeout_s == 21600


def test_defaults_are_replaced_but_env_and_metrics_merge(folder: Path):
    text = """[defaults]
env = { A = "1", B = "2" }
tags = ["x"]
metrics.acc = { regex = "acc=(.*)" }
[[task]]
name = "a"
command = "true"
env = { B = "3", C = false }
tags = ["y"]
metrics.loss = { file = "m.json", key = "loss", best = "min" }
"""
    task = deck(folder, text).tasks[0]
    assert task.work.env == (("A", "1"), ("B", "3"), ("C", None))
    assert task.tags == ("y",)
    assert [metric.name for metric in task.extras.metrics] == ["acc", "loss"]
    assert task.extras.metrics[1].file == f"{folder}/m.json"


def test_a_profile_lies_over_vars_deck_and_defaults_and_names_the_state(folder: Path):
    text = """[deck]
gpus = "all"
[vars]
epochs = 100
[defaults]
timeout = "6h"
env.A = "1"
[profile.smoke]
vars = { epochs = 1 }
deck = { gpus = "none" }
defaults = { timeout = "3m", env = { B = "2" } }
[[task]]
name = "a"
command = ["x", "{epochs}"]
"""
    made = deck(folder, text, RunOptions(profile="smoke"))
    assert made.settings.gpus == "none"
    assert made.tasks[0].work.command == ("x", "1")
    assert made.tasks[0].policy.timeout_s == 180
    assert made.tasks[0].work.env == (("A", "1"), ("B", "2"))
    assert made.stem == "tasks@smoke"
    assert made.settings.log_dir == f"{folder}/logs/tasks@smoke"


def test_none_takes_back_a_default(folder: Path):
    text = '[defaults]\ntimeout = "6h"\ngpu_memory = "10GiB"\n'
    text += '[[task]]\nname = "a"\ncommand = "x"\ntimeout = "none"\ngpu_memory = "none"\n'
    task = deck(folder, text).tasks[0]
    assert (task.policy.timeout_s, task.resources.gpu_memory_mib) == (None, None)


def test_vars_may_be_made_of_other_vars_and_home(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")
    head = '[vars]\nruns = "{root}/runs"\nroot = "~/data"\nall = ["{root}/a", "~/b"]\n'
    assert commands(folder, '["{runs}", "{all}"]', 'name = "a"', head) == [
        ("/home/me/data/runs", '["/home/me/data/a","/home/me/b"]')
    ]


def test_a_tilde_in_a_matrix_is_left_to_the_shell(folder: Path):
    assert commands(folder, '["{at}"]', 'name = "a"\nmatrix.at = ["~/data"]') == [("~/data",)]


def test_environment_variables_can_be_placeholders(folder: Path):
    assert commands(folder, '["{env.HOME}/x"]', 'name = "a"') == [("/home/me/x",)]


def test_paths_are_absolute_below_cwd(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")
    task = tasks(folder, 'cwd = "sub"\noutputs = ["a/*.pt", "/abs", "~/b", "./c"]')[0]
    assert task.cwd == f"{folder}/sub"
    assert task.outputs == (f"{folder}/sub/a/*.pt", "/abs", "/home/me/b", f"{folder}/sub/c")


def test_on_oom_rungs_change_the_task_as_written(folder: Path):
    text = """[vars]
bs = 32
[[task]]
name = "a-{seed}"
command = ["train", "{bs}", "{seed}"]
env = { X = "1" }
matrix.seed = [1, 2]
on_oom = [{ vars = { bs = 16 } }, { env = { BATCH = "8" } }]
"""
    ladder = deck(folder, text).tasks[1].ladder
    assert [(rung.command, rung.env) for rung in ladder] == [
        (("train", "16", "2"), (("X", "1"),)),
        (("train", "32", "2"), (("X", "1"), ("BATCH", "8"))),
    ]


def test_a_rung_may_change_a_matrix_value(folder: Path):
    text = (
        '[[task]]\nname = "a-{bs}"\ncommand = ["t", "{bs}"]\nmatrix.bs = [64, 32]\non_oom = [{ vars = { bs = 8 } }]\n'
    )
    assert [task.ladder[0].command for task in deck(folder, text).tasks] == [("t", "8"), ("t", "8")]


def test_resume_has_its_own_command_and_a_glob_below_cwd(folder: Path):
    resume = tasks(folder, 'resume_command = ["train", "--resume", "{attempt}"]\nresume_when = "out/*.pt"')[0].resume
    assert resume is not None
    assert resume.when == (f"{folder}/out/*.pt",)
    assert tuple(map(without_markers, resume.command)) == ("train", "--resume", "{attempt}")


def test_resume_has_the_variables_of_each_rung(folder: Path):
    text = """[vars]
bs = 32
[[task]]
name = "a-{seed}"
command = ["train", "{bs}"]
matrix.seed = [1, 2]
resume_command = ["train", "{bs}", "--resume", "{seed}"]
on_oom = [{ vars = { bs = 16 } }, { env = { BATCH = "8" } }]
"""
    resume = deck(folder, text).tasks[1].resume
    assert resume is not None
    assert [resume.on_rung(rung)[1] for rung in (0, 1, 2)] == ["32", "16", "32"]


def test_resume_that_no_rung_changes_is_kept_once(folder: Path):
    resume = tasks(folder, 'resume_command = "again"\non_oom = [{ env = { BATCH = "8" } }]')[0].resume
    assert resume is not None
    assert resume.rungs == ()


def test_a_disabled_entry_makes_no_task_but_holds_its_round(folder: Path):
    text = '[[task]]\nname = "a"\ncommand = "x"\nenabled = false\n[[task]]\nname = "b"\ncommand = "x"\nround = 1\n'
    assert [task.name for task in deck(folder, text).tasks] == ["b"]


def test_enabled_may_depend_on_the_matrix(folder: Path):
    text = '[[task]]\nname = "a-{on}"\ncommand = "x"\nmatrix.on = [true, false]\nenabled = "{on}"\n'
    assert [task.name for task in deck(folder, text).tasks] == ["a-true"]


def test_needs_may_hold_placeholders_and_never_match_their_own_task(folder: Path):
    text = """[[task]]
name = "prepare-{d}"
command = "x"
matrix.d = ["pets", "flowers"]
[[task]]
name = "train-{d}-{s}"
command = "x"
matrix.d = ["pets", "flowers"]
matrix.s = [1, 2]
needs = ["prepare-{d}"]
[[task]]
name = "report"
command = "x"
after = ["*"]
"""
    made = deck(folder, text).tasks
    assert made[2].needs == ("prepare-pets",)
    assert made[-1].after == ("*",)


def test_tasks_that_do_the_same_work_are_warned_of(folder: Path):
    made = deck(folder, '[[task]]\nname = "a"\ncommand = "train"\n[[task]]\nname = "b"\ncommand = "train"\n')
    assert made.warnings == (
        f'{folder}/tasks.toml:4: task "b": does the same as task "a": same command and environment',
    )


def test_a_key_of_a_matrix_that_no_command_uses_is_named_once(folder: Path):
    matrix = "matrix.lr = [0.1, 0.2]\nmatrix.seed = [1, 2, 3]\n"
    made = deck(folder, f'[[task]]\nname = "a-{{lr}}-{{seed}}"\ncommand = "train {{lr}}"\n{matrix}')
    assert made.warnings == (
        f'{folder}/tasks.toml:1: task "a-0.1-2" (and 3 more): does the same as others of its [[task]]: '
        "same command and environment, whatever seed is",
    )


def test_the_same_work_on_another_number_of_gpus_or_processes_is_meant(folder: Path):
    head = '[[task]]\ncommand = "train"\n'
    made = deck(folder, f'{head}name = "one"\n{head}name = "two"\ngpus = 2\n{head}name = "ddp"\nlaunch = "torchrun"\n')
    assert made.warnings == ()


def test_tasks_with_the_same_output_are_warned_of(folder: Path):
    made = deck(folder, '[[task]]\nname = "a-{s}"\ncommand = "t {s}"\nmatrix.s = [1, 2]\noutputs = ["m.pt"]\n')
    assert made.warnings == (f'{folder}/tasks.toml:1: task "a-2": has an output of task "a-1", too: {folder}/m.pt',)


def test_a_file_may_begin_with_a_byte_order_mark_and_have_windows_lines(folder: Path):
    path = folder / "tasks.toml"
    path.write_bytes(b'\xef\xbb\xbf[[task]]\r\nname = "a"\r\ncommand = """\r\nls\r\n"""\r\n')
    assert load(str(path)).tasks[0].work.command == "ls\n"


def test_a_file_of_variables_may_differ_from_task_to_task(folder: Path):
    for name in ("a", "b"):
        (folder / f"{name}.env").write_text(f"WHO={name}\n")
    made = deck(folder, '[[task]]\nname = "{n}"\ncommand = "x"\nenv_file = "{n}.env"\nmatrix.n = ["a", "b"]\n')
    assert [task.work.env for task in made.tasks] == [(("WHO", "a"),), (("WHO", "b"),)]


def test_a_placeholder_may_stand_for_all_that_tasks_ask_of_slurm(folder: Path):
    text = """[slurm]
partition = "gpu"
[[task]]
name = "a-{seed}"
command = "x"
slurm = "{ask}"
matrix.case = [{ seed = 1, ask = { exclusive = true } }, { seed = 2, ask = { partition = "big", qos = "q" } }]
"""
    made = [dict(task.extras.slurm) for task in deck(folder, text).tasks]
    assert made == [{"partition": "gpu", "exclusive": True}, {"partition": "big", "qos": "q"}]


def test_prune_merges_with_the_defaults_and_may_be_taken_back(folder: Path):
    (folder / "tasks.toml").write_text(
        '[defaults]\nprune = { metric = "loss:min", at = [0.5, 0.25] }\n'
        '[[task]]\nname = "a"\ncommand = "x"\nprune.keep = "{few}"\nmatrix.few = [2]\n'
        '[[task]]\nname = "b"\ncommand = "x"\nprune.rule = "none"\n'
    )
    made = load(str(folder / "tasks.toml")).tasks
    assert [task.extras.prune for task in made] == [Prune("loss:min", at=(0.25, 0.5), keep=2.0), None]


@pytest.mark.parametrize("name", ["los", "loss"])
def test_a_prune_by_a_metric_that_the_task_has_not_is_warned_of(folder: Path, name: str):
    metric = "metrics.loss = { regex = 'loss=(.*)' }"
    made = deck(folder, f'[[task]]\nname = "a"\ncommand = "true"\n{metric}\nprune = {{ metric = "{name}:min" }}\n')
    assert any("pruned by los, and its metrics are loss" in line for line in made.warnings) == (name == "los")


@pytest.mark.parametrize(
    ("regex", "warned"),
    [
        (r"acc=\d+", True),
        (r"acc=(\d+)", False),
        (r"(?<=acc=)\d+", False),
        (r"^\d+\.\d+$", False),
        (r"(?i)[0-9.]+", False),
    ],
)
def test_a_metric_that_finds_words_and_no_number_is_warned_of(folder: Path, regex: str, warned: bool):
    made = deck(folder, f'[[task]]\nname = "a"\ncommand = "true"\nmetrics.acc = {{ regex = \'{regex}\' }}\n')
    assert any("no group in metrics.acc.regex" in line for line in made.warnings) == warned
