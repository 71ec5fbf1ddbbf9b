"""[slurm], a task's own `slurm` over it, and what a deck can have on a cluster or on a box alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpudeck.engine.core.spec import DeckFile
from gpudeck.engine.ports import Inventory
from tests.inside.taskfile import Box, RunOptions, RuntimeValues, asked, check_fit, gpus_in, load
from tests.taskfile.loading import deck, problems

ON_SLURM = '[deck]\nbackend = "slurm"\n'


def entry(body: str = "", name: str = "a") -> str:
    return f'[[task]]\nname = "{name}"\ncommand = "x"\n{body}\n'


def options(text: str, task: int = 0) -> Mapping[str, object]:
    spec = deck(text).tasks[task]
    return asked(spec, RuntimeValues(attempt=2, gpu_ids=("0", "1"), run_dir="/my runs"))


def test_a_tasks_own_slurm_lies_over_defaults_and_the_decks():
    text = (
        '[slurm]\npartition = "gpu"\ntime = "2h"\nqos = "low"\n'
        '[defaults]\nslurm = { time = "1h", account = "a" }\n' + entry('slurm = { qos = "high", mem = "2GiB" }')
    )
    assert options(text) == {"partition": "gpu", "time": 3600.0, "qos": "high", "account": "a", "mem": 2048}


def test_what_is_filled_into_a_line_of_setup_is_quoted_for_the_shell():
    text = '[vars]\ndata = "/my data"\n[slurm]\nsetup = ["cd {data}"]\n' + entry()
    assert options(text) == {"setup": ("cd '/my data'",)}


def test_the_chosen_profile_lies_over_the_decks():
    text = '[slurm]\nqos = "low"\n[profile.night]\nslurm = { qos = "night" }\n' + entry()
    assert dict(deck(text, RunOptions(profile="night")).tasks[0].extras.slurm) == {"qos": "night"}


def on_nodes_of(gpus: int | None, text: str) -> DeckFile:
    """Read where the cluster tells that a node has so many."""
    Path("tasks.toml").write_text(ON_SLURM + text)
    return load("tasks.toml", None, Box(gpus), environ={"PATH": "/bin"})


def test_all_gpus_are_those_of_a_node():
    spec = on_nodes_of(4, entry('gpus = "all"')).tasks[0]
    assert dict(spec.extras.slurm) == {"gres": "gpu:4"}


def test_a_number_of_gpus_that_is_asked_for_stays():
    spec = on_nodes_of(4, '[slurm]\ngres = "gpu:a100:8"\n' + entry('gpus = "all"')).tasks[0]
    assert dict(spec.extras.slurm) == {"gres": "gpu:a100:8"}


def test_all_gpus_of_a_type_are_as_many_as_a_node_has():
    spec = on_nodes_of(4, '[slurm]\ngres = "gpu:a100:{num_gpus},tmp:1"\n' + entry('gpus = "all"')).tasks[0]
    assert dict(spec.extras.slurm) == {"gres": "gpu:a100:4,tmp:1"}


@pytest.mark.parametrize(("gpus", "shards"), [(4, 4), (None, 1)])
def test_shards_by_gpu_are_as_many_as_a_node_has(gpus: int | None, shards: int):
    assert len(on_nodes_of(gpus, entry('shards = "gpus"')).tasks) == shards


def test_tasks_with_the_same_share_what_they_ask_for():
    text = '[slurm]\nqos = "low"\n' + entry() + entry(name="b")
    one, other = deck(text).tasks
    assert one.extras is other.extras


def test_values_of_the_matrix_may_stand_in_it_and_keep_their_type():
    text = (
        '[[task]]\nname = "a-{hours}"\ncommand = "x {hours}"\nmatrix.hours = [1, 2]\n'
        'slurm = { time = "{hours}h", constraint = "h{hours}" }\n'
    )
    assert [options(text, task) for task in (0, 1)] == [
        {"time": 3600.0, "constraint": "h1"},
        {"time": 7200.0, "constraint": "h2"},
    ]


def test_an_empty_text_takes_back_what_the_deck_says():
    text = '[vars]\nnodes_wanted = ""\n[slurm]\nqos = "low"\n' + entry(
        'slurm = { qos = "", nodelist = "{nodes_wanted}" }'
    )
    assert options(text) == {"qos": "", "nodelist": ""}


def test_what_is_known_at_the_start_is_filled_in_then_and_quoted_in_lines_of_shell():
    text = '[slurm]\ngres = "gpu:a100:{num_gpus}"\nsetup = ["cd {run_dir}", "echo ${HOME}"]\n' + entry()
    assert options(text) == {"gres": "gpu:a100:2", "setup": ("cd '/my runs'", "echo ${HOME}")}


def test_the_deck_says_how_many_jobs_are_submitted_at_once():
    assert deck("[slurm]\nmax_submitted = 7\n" + entry()).settings.max_submitted == 7
    assert deck(entry()).settings.max_submitted == 200


def test_what_is_asked_of_slurm_says_nothing_about_the_work():
    plain = deck(entry()).tasks[0].fingerprint
    assert deck('[slurm]\nqos = "x"\n' + entry('slurm.mem = "1GiB"')).tasks[0].fingerprint == plain


def test_several_gpus_without_cores_on_a_cluster_are_warned_of():
    said = deck(ON_SLURM + entry("gpus = 4")).warnings
    assert said == ("tasks.toml: a: several GPUs and no cpus: Slurm mostly gives a single core to all of them",)
    assert deck(ON_SLURM + entry("gpus = 4\ncpus = 8")).warnings == deck(entry("gpus = 4")).warnings == ()


@pytest.mark.parametrize(
    ("said", "minutes"),
    [
        ("90", 90), ('"90"', 90), ('"90:30"', 90.5), ('"24:00:00"', 1440), ('"1-12"', 2160), ('"1-12:30"', 2190),
        ('"1-12:00:30"', 2160.5), ('"90s"', 1.5), ('"1h30m"', 90), ("1.5", 1.5),
    ],
)  # fmt: skip
def test_a_limit_is_read_as_sbatch_reads_it(said: str, minutes: float):
    assert options(f"[slurm]\ntime = {said}\n" + entry())["time"] == minutes * 60


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[slurm]\npartion = "x"\n' + entry(),
            'tasks.toml:2: [slurm]: unknown key "partion": did you mean partition?',
        ),
        (
            '[slurm]\ntime = "1-0:0:0:0"\n' + entry(),
            'tasks.toml:2: [slurm]: time must be a limit such as "24h", "24:00:00" or 90 (minutes), got "1-0:0:0:0"',
        ),
        (
            entry('slurm = { mem = 3 }'),
            'tasks.toml:4: task "a": slurm.mem needs a unit: write "3GiB" or "3MiB"',
        ),
        (
            entry("slurm.max_submitted = 3"),
            'tasks.toml:4: task "a": slurm.max_submitted is one for all tasks: it belongs into [slurm]',
        ),
        (
            '[slurm]\npartition = "{part}"\n' + entry(),
            "tasks.toml:2: [slurm]: partition has {part}, which is unknown: write {{part}} for a literal brace",
        ),
        (
            '[[task]]\nname = "a-{h}"\ncommand = "x {h}"\nmatrix.h = ["1x"]\nslurm.time = "{h}"\n',
            'tasks.toml:5: task "a-1x": slurm.time must be a limit such as "24h", "24:00:00" or 90 (minutes), got "1x"',
        ),
        (entry('slurm = "gpu"'), 'tasks.toml:4: task "a": slurm must be a table, got text: "gpu"'),
        (
            '[profile.x]\nslurm = { array = "yes" }\n' + entry(),
            'tasks.toml:2: [profile.x]: array must be true or false, got "yes"',
        ),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_line(text: str, expected: str):
    assert problems(text) == [expected]


NEEDS = 'launch = "srun" needs backend = "slurm" in [deck], or gpudeck started inside a Slurm job'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (entry("nodes = 2"), ['tasks.toml:4: task "a": nodes = 2 needs backend = "slurm" in [deck]']),
        (entry('launch = "srun"'), [f'tasks.toml:4: task "a": {NEEDS}']),
        (
            '[[task]]\nname = "{how}"\ncommand = "x"\nlaunch = "{how}"\nmatrix.how = ["torchrun", "srun"]\n',
            [f'tasks.toml:4: task "srun": {NEEDS}'],
        ),
        ('[slurm]\nqos = "x"\n' + entry(), []),
        (ON_SLURM + entry('nodes = 2\nlaunch = "srun"\nnproc = 4'), []),
        (
            ON_SLURM + entry('gpus = "all"'),
            [
                'tasks.toml:6: task "a": gpus = "all" needs slurm.gres to say how many a node has: gres = "gpu:8", '
                "or write gpus = 8"
            ],
        ),
        (ON_SLURM + '[slurm]\ngres = "gpu:a100:8"\n' + entry('gpus = "all"'), []),
    ],
)
def test_what_the_backend_cannot_give_is_refused_at_the_start(text: str, expected: list[str]):
    assert list(deck(text).later) == expected


def test_a_task_that_is_left_out_may_want_what_there_is_not():
    text = entry("nodes = 2") + entry(name="b")
    assert deck(text, RunOptions(only=("b",))).later == ()


def test_inside_a_job_srun_can_be_had_on_a_box_too():
    in_job = {"SLURM_JOB_ID": "7"}
    assert deck(entry('launch = "srun"'), environ=in_job).later == ()
    assert deck(entry("nodes = 2"), environ=in_job).later != ()


def test_a_warning_without_a_timeout_goes_before_slurms_own_limit():
    spec = deck(ON_SLURM + '[slurm]\ntime = "4h"\n' + entry('warn_signal = "USR1"')).tasks[0]
    assert (spec.policy.warn_signal, spec.policy.timeout_s) == ("USR1", None)


def test_no_gpu_of_this_box_has_to_fit_what_runs_on_a_cluster():
    check_fit(deck(ON_SLURM + 'gpus = "0-7"\n' + entry("gpus = 16")), Inventory(()))


def test_one_warning_names_all_that_says_nothing_on_slurm():
    text = ON_SLURM + 'gpus = "sim:2"\nforeign = "fit"\nkeep_free = 1\n'
    text += entry('gpu_memory = "2GiB"\nwatch = { idle_gpu = "5m" }')
    assert deck(text, RunOptions(gpus="0")).warnings == (
        "tasks.toml: on Slurm these say nothing and are passed over: --gpus; foreign, keep_free of [deck]; "
        "gpu_memory, watch.idle_gpu of tasks",
    )
    assert deck(text, RunOptions(backend="local")).warnings == ()


def test_a_deck_whose_keys_all_mean_something_warns_of_nothing():
    assert deck(ON_SLURM + '[slurm]\nqos = "x"\n' + entry("gpus = 2\ncpus = 8")).warnings == ()


@pytest.mark.parametrize(
    ("gres", "count"),
    [("gpu:8", 8), ("gpu:a100:4", 4), ("gpu", 1), ("gpu:a100", 1), ("lustre:1,gpu:2", 2), ("shard:4", 0), (None, 0)],
)
def test_the_number_of_gpus_in_a_gres(gres: str | None, count: int):
    assert gpus_in(gres) == count
