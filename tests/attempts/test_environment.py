"""The environment of an attempt."""

import os
import sys
from dataclasses import replace

import pytest

from gpudeck.engine.core.build import build
from gpudeck.engine.core.effects import Launch
from gpudeck.engine.core.spec import DeckFile, DeckSettings, TaskSpec, Work
from tests.inside.attempts import Box, LogFolder, Planner, base_environment


def spec(**changes):
    return TaskSpec(name="train-1", entry="train-{n}", position=0, work=Work(("true",)), fingerprint="f", **changes)


def made(base=None, env=(), task=None, cpus=8, gpu_mem_mib=48000, cuda_visible_devices="2,3"):
    task = task or spec()
    deck = build(
        DeckFile("/tasks.toml", "tasks", DeckSettings(name="noise", log_dir="/logs"), (task,)), gpus=(), cores=4
    )
    box = Box({}, visible=lambda _: "", index_of={}, cpus_each=1)
    plan = Planner(deck, LogFolder("/logs"), box).plan(
        deck.tasks[0], Launch("train-1", 2, "tok", (), 0, may_resume=False)
    )
    plan = replace(plan, env=tuple(env), threads=cpus)
    base = base or {"PATH": "/usr/bin"}
    return plan.environment(base, gpu_mem_mib=gpu_mem_mib, cuda_visible_devices=cuda_visible_devices)


@pytest.mark.parametrize(
    "name",
    ["SSH_TTY", "SSH_CONNECTION", "SSH_AUTH_SOCK", "TMUX", "TMUX_PANE", "STY", "DISPLAY", "WAYLAND_DISPLAY",
     "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "XDG_SESSION_ID", "XDG_SESSION_TYPE", "GPUDECK_TOKEN"],
)  # fmt: skip
def test_what_ends_with_the_session_is_left_out(name):
    assert base_environment({name: "x", "HOME": "/home/ann"}) == {"HOME": "/home/ann"}


@pytest.mark.parametrize(
    "name", ["HF_HOME", "LD_LIBRARY_PATH", "WANDB_API_KEY", "XDG_CACHE_HOME", "BASH_FUNC_module%%", "LANG", "TERM"]
)
def test_what_a_task_needs_is_kept(name):
    assert base_environment({name: "x"}) == {name: "x"}


def test_base_environment_of_this_process_is_plain_text():
    assert all(isinstance(value, str) for value in base_environment(os.environ).values())


def test_the_attempt_is_told_what_it_is():
    env = made()
    assert {name: value for name, value in env.items() if name.startswith("GPUDECK_")} == {
        "GPUDECK_TASK": "train-1",
        "GPUDECK_ATTEMPT": "2",
        "GPUDECK_DECK": "noise",
        "GPUDECK_TOKEN": "tok",
        "GPUDECK_LOG": "/logs/train-1/attempt-2.log",
        "GPUDECK_RUN_DIR": "/logs/train-1",
        "GPUDECK_GPU_MEM_MIB": "48000",
    }


def test_gpus_are_numbered_as_nvidia_smi_does():
    env = made()
    assert (env["CUDA_DEVICE_ORDER"], env["CUDA_VISIBLE_DEVICES"]) == ("PCI_BUS_ID", "2,3")


def test_a_cpu_task_sees_no_gpu_whatever_the_caller_saw():
    env = made({"CUDA_VISIBLE_DEVICES": "0,1"}, cuda_visible_devices="")
    assert env["CUDA_VISIBLE_DEVICES"] == ""


def test_unknown_gpu_memory_is_not_set():
    assert "GPUDECK_GPU_MEM_MIB" not in made(gpu_mem_mib=None)


def test_output_is_unbuffered_unless_the_caller_said_otherwise():
    assert made()["PYTHONUNBUFFERED"] == "1"
    assert made({"PYTHONUNBUFFERED": ""})["PYTHONUNBUFFERED"] == ""


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_threads_are_the_tasks_cores_unless_set(name):
    assert made()[name] == "8"
    assert made({name: "3"})[name] == "3"
    assert made(env=[(name, "5")])[name] == "5"


def test_the_files_variables_win():
    assert made({"LR": "1"}, env=[("LR", "2")])["LR"] == "2"


def test_a_variable_can_be_unset():
    assert "LR" not in made({"LR": "1"}, env=[("LR", None)])
    assert "PYTHONUNBUFFERED" not in made(env=[("PYTHONUNBUFFERED", None)])


def test_unsetting_what_is_not_there_is_fine():
    assert "NONE" not in made(env=[("NONE", None)])


def test_the_token_cannot_be_lost():
    assert made(env=[("GPUDECK_TOKEN", None)])["GPUDECK_TOKEN"] == "tok"


def test_the_chosen_python_is_first_on_path():
    task = spec(python="/venv/bin/python", python_env=(("VIRTUAL_ENV", "/venv"),))
    env = made({"PATH": "/usr/bin:/bin"}, task=task)
    assert (env["PATH"], env["VIRTUAL_ENV"]) == ("/venv/bin:/usr/bin:/bin", "/venv")


def test_path_is_not_extended_by_what_is_first_anyway():
    assert made({"PATH": "/venv/bin:/bin"}, task=spec(python="/venv/bin/python"))["PATH"] == "/venv/bin:/bin"
    assert made({"PATH": "/venv/binary"}, task=spec(python="/venv/bin/python"))["PATH"] == "/venv/bin:/venv/binary"


def test_without_a_path_the_systems_is_kept():
    assert made({"HOME": "/"}, task=spec(python="/v/bin/python"))["PATH"] == f"/v/bin{os.pathsep}{os.defpath}"


def test_without_a_chosen_python_it_is_the_one_that_runs_gpudeck():
    assert made()["PATH"].startswith(os.path.dirname(sys.executable) + os.pathsep)


def test_another_virtual_environment_of_the_caller_does_not_shine_through():
    conda = spec(python="/conda/envs/x/bin/python", python_env=(("CONDA_PREFIX", "/conda/envs/x"),))
    env = made({"VIRTUAL_ENV": "/old", "PYTHONHOME": "/old", "CONDA_DEFAULT_ENV": "base"}, task=conda)
    assert "VIRTUAL_ENV" not in env
    assert "PYTHONHOME" not in env
    assert (env["CONDA_PREFIX"], env["CONDA_DEFAULT_ENV"]) == ("/conda/envs/x", "x")


def test_the_base_is_not_changed():
    base = {"PATH": "/usr/bin"}
    made(base, env=[("A", "1")])
    assert base == {"PATH": "/usr/bin"}
