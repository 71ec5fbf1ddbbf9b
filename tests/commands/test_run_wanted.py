"""What `gpudeck run` is asked for: read from the command line before anything is written."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpudeck.engine.errors import UsageError
from tests.inside.commands import Wanted, parse, wanted_of


def wanted(*words: str, environ: Mapping[str, str] | None = None) -> Wanted:
    return wanted_of(parse(["run", *words]), environ or {})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "gpudeck run -- python train.py"),
        (("--",), "gpudeck run -- python train.py"),
        (("-n", "-1", "true"), "-n must be at least 0"),
        (("-n", "x", "true"), '-n must be a whole number or "all"'),
        (("--timeout", "soon", "true"), "--timeout must be a duration"),
        (("--gpu-memory", "24", "true"), '--gpu-memory needs a unit: write "24GiB"'),
        (("--name", "a b", "true"), "--name"),
        (("--env", "X", "true"), "--env wants K=V"),
        (("--env", "CUDA_VISIBLE_DEVICES=7", "true"), "--env may not set CUDA_VISIBLE_DEVICES"),
        (("--gpus", "3-1", "true"), "--gpus has the range 3-1"),
        (("--launch", "srun", "true"), 'this version cannot do launch = "srun" yet'),
        (("--launch", "nonsense", "true"), "--launch must be"),
        (("echo", "\udcff"), "is not UTF-8"),
    ],
)
def test_a_mistake_is_told_in_one_line(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        wanted(*words)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_terminal_without_a_command_gets_your_shell() -> None:
    assert wanted("-i", environ={"SHELL": "/bin/zsh"}).command == ["/bin/zsh"]
    assert wanted("-i").command == ["bash"]


def test_keys_of_a_task_are_options() -> None:
    words = ("-n", "2", "--cpus", "4", "--timeout", "1h", "--priority", "-3", "--gpu-memory", "24GiB", "--", "true")
    keys = {"gpus": 2, "cpus": 4, "timeout": "1h", "priority": -3, "gpu_memory": "24GiB"}
    assert keys.items() <= wanted(*words).entry.items()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("python", "-m", "x"), "python"),
        (("python", "src/train.py", "--lr", "1"), "train"),
        (("cd x && python eval.py | tee log",), "eval"),
        (("../..",), "run"),
        (("x" * 300,), "x" * 100),
    ],
)
def test_its_name_comes_from_the_command(words: tuple[str, ...], name: str) -> None:
    assert wanted(*words).name == name


def test_the_shells_cuda_visible_devices_is_a_limit() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "2,3"}
    assert wanted("true", environ=environ).entry["gpu_ids"] == ["2", "3"]
    assert wanted("-n", "1", "--gpus", "3", "true", environ=environ).entry["gpu_ids"] == ["3"]
    assert "gpu_ids" not in wanted("-n", "0", "true", environ=environ).entry
    with pytest.raises(UsageError, match="GPU 1 is not ours to use: CUDA_VISIBLE_DEVICES=2,3"):
        wanted("-n", "1", "--gpus", "1", "true", environ=environ)


def test_a_number_that_may_mean_so_many_gpus_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--gpus 2 may mean 2 GPUs \(-n 2\) or GPU 2 \(-n 1 --gpus 2\)"):
        wanted("--gpus", "2", "true")


def test_options_behind_a_line_for_bash_are_refused() -> None:
    with pytest.raises(UsageError, match="'sleep 1 && x' is a line for bash, which stands alone: options of gpudeck's"):
        wanted("sleep 1 && x", "--dry-run")


def test_a_hidden_gpu_is_not_used_unasked() -> None:
    for limit in ("", "-1"):
        with pytest.raises(UsageError, match="run on the CPU: -n 0"):
            wanted("true", environ={"CUDA_VISIBLE_DEVICES": limit})


def test_in_a_slurm_job_the_engine_counts_the_gpus() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_ID": "7"}
    assert "gpu_ids" not in wanted("true", environ=environ).entry


def test_what_belongs_to_a_login_is_not_kept() -> None:
    kept = wanted("--env", "A=b=c", "true", environ={"SSH_TTY": "x", "DISPLAY": ":0", "KEEP": "1"}).environment
    assert kept == {"KEEP": "1", "A": "b=c"}
