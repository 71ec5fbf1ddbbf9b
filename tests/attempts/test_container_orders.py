"""What starts a task with an image: the words of each container program, and what the command is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudeck.engine.core.build import build
from gpudeck.engine.core.effects import Launch
from gpudeck.engine.core.events import Outcome
from gpudeck.engine.core.spec import TaskSpec, Work
from gpudeck.engine.ports import GpuInfo, StartOrder
from tests.inside.attempts import Box, Container, LogFolder, Planner, chosen, contained, load, outlived

CALLER = {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "OF_THE_SHELL": "1", "HF_TOKEN": "secret"}
GPUS = tuple(GpuInfo(f"GPU-{n}", n, "A100", 81920) for n in (2, 3))


def order(folder: Path, program: str, body: str = "", *, deck: str = "") -> StartOrder:
    path = folder / "tasks.toml"
    path.write_text(f'[deck]\n{deck}\n[[task]]\nname = "t"\nimage = "img:1"\ncommand = ["train"]\n{body}\n')
    made = build(load(str(path), environ=CALLER), gpus=GPUS, cores=4)
    logs = LogFolder(made.settings.log_dir, ["t"])
    indices = {gpu.uuid: gpu.index for gpu in GPUS}
    box = Box(CALLER, lambda uuids: ",".join(str(indices[uuid]) for uuid in uuids), indices, cpus_each=3, cores=4)
    box.container, box.folder = program, str(folder)  # type: ignore[assignment]
    task, planner = made.by_name["t"], Planner(made, logs, box)
    wanted = task.spec.resources.gpus
    launch = Launch("t", 1, "tok", tuple(gpu.uuid for gpu in GPUS)[:wanted], 0, may_resume=False)  # type: ignore[misc]
    return planner.order(task, planner.plan(task, launch))


def after(words: tuple[str, ...], option: str) -> list[str]:
    """Values of an option."""
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def composed(program: str, *, gpus: tuple[str, ...] = (), user: tuple[int, int] = (1000, 100)) -> tuple[str, ...]:
    container = Container(program, "img:1", ("/work",), ("/data", "/a:/b:ro"))  # type: ignore[arg-type]
    env = {"GPUDECK_TOKEN": "tok", "SEED": "1", "HOME": "/tmp"}
    words, _ = contained(container, ("train", "--all"), env, CALLER, cwd="/work/x", gpus=gpus, user=user)
    return words


def test_docker_is_called_so() -> None:
    assert composed("docker", gpus=("GPU-a", "GPU-b")) == (
        "docker", "run", "--rm", "--init", "--name", "gpudeck-tok", "--log-driver", "none", "--network", "host",
        "--user", "1000:100", "--gpus", '"device=GPU-a,GPU-b"', "--volume", "/work:/work",
        "--volume", "/dev/shm:/dev/shm", "--volume", "/data:/data", "--volume", "/a:/b:ro", "--workdir", "/work/x",
        "--env", "GPUDECK_TOKEN", "--env", "SEED", "--env", "HOME=/tmp", "img:1", "train", "--all",
    )  # fmt: skip


def test_podman_is_called_so() -> None:
    assert composed("podman", gpus=("GPU-a", "GPU-b")) == (
        "podman", "run", "--rm", "--init", "--name", "gpudeck-tok", "--log-driver", "none", "--network", "host",
        "--userns", "keep-id", "--user", "1000:100", "--security-opt", "label=disable",
        "--device", "nvidia.com/gpu=GPU-a", "--device", "nvidia.com/gpu=GPU-b", "--volume", "/work:/work",
        "--volume", "/dev/shm:/dev/shm", "--volume", "/data:/data", "--volume", "/a:/b:ro", "--workdir", "/work/x",
        "--env", "GPUDECK_TOKEN", "--env", "SEED", "--env", "HOME=/tmp", "img:1", "train", "--all",
    )  # fmt: skip


def test_apptainer_is_called_so() -> None:
    assert composed("apptainer", gpus=("GPU-a",)) == (
        "apptainer", "exec", "--cleanenv", "--nv", "--bind", "/work:/work", "--bind", "/data:/data",
        "--bind", "/a:/b:ro", "--pwd", "/work/x", "img:1", "train", "--all",
    )  # fmt: skip


def test_podman_of_root_has_no_namespace_of_ids() -> None:
    assert "--userns" not in composed("podman", user=(0, 0))


def test_podman_of_a_user_in_root_s_group_has_one() -> None:
    assert "--userns" in composed("podman", user=(1000, 0))


@pytest.mark.parametrize("program", ["docker", "podman", "apptainer"])
def test_a_cpu_task_sees_no_gpu(tmp_path: Path, program: str) -> None:
    found = order(tmp_path, program, "gpus = 0")
    assert {"--gpus", "--device", "--nv"}.isdisjoint(found.argv)


def test_values_of_variables_stand_in_no_list_of_processes(tmp_path: Path) -> None:
    found = order(tmp_path, "podman", 'env = { API_KEY = "k1" }\nenv_required = ["HF_TOKEN"]')
    assert {"API_KEY", "HF_TOKEN", "GPUDECK_TASK"} <= set(after(found.argv, "--env"))
    assert not any("k1" in word or "secret" in word for word in found.argv)
    assert (found.env["API_KEY"], found.env["HF_TOKEN"]) == ("k1", "secret")


def test_the_client_keeps_its_own_home_and_path(tmp_path: Path) -> None:
    found = order(tmp_path, "podman", 'env = { HOME = "/tmp", PATH = "/opt/bin" }')
    assert {"HOME=/tmp", "PATH=/opt/bin"} <= set(after(found.argv, "--env"))
    assert (found.env["HOME"], found.env["PATH"]) == ("/home/me", "/usr/bin:/bin")


def test_the_shell_s_variables_stay_outside(tmp_path: Path) -> None:
    assert "OF_THE_SHELL" not in after(order(tmp_path, "docker").argv, "--env")
    apptainer = order(tmp_path, "apptainer", 'env = { SEED = "1" }').env
    assert (apptainer["APPTAINERENV_SEED"], apptainer["APPTAINERENV_GPUDECK_TOKEN"]) == ("1", "tok")
    assert "APPTAINERENV_OF_THE_SHELL" not in apptainer


def test_gpus_are_numbered_as_the_container_sees_them(tmp_path: Path) -> None:
    body = 'gpus = 2\nenv = { IDS = "{gpu_ids}" }'
    docker = order(tmp_path, "docker", body).env
    assert (docker["CUDA_VISIBLE_DEVICES"], docker["IDS"]) == ("0,1", "0,1")
    apptainer = order(tmp_path, "apptainer", body).env  # which shows all GPUs of the box
    assert (apptainer["APPTAINERENV_CUDA_VISIBLE_DEVICES"], apptainer["APPTAINERENV_IDS"]) == ("2,3", "2,3")


def test_the_folders_of_the_task_are_there_at_their_own_paths(tmp_path: Path) -> None:
    (tmp_path / "deck").mkdir()
    found = order(tmp_path / "deck", "docker", f'cwd = "{tmp_path}/work"', deck=f'log_dir = "{tmp_path}/logs"')
    shared = [f"{path}:{path}" for path in (f"{tmp_path}/work", f"{tmp_path}/deck", f"{tmp_path}/logs", "/dev/shm")]
    assert after(found.argv, "--volume") == shared


def test_mounts_of_one_s_own_count_from_cwd(tmp_path: Path) -> None:
    found = after(order(tmp_path, "docker", 'mounts = ["data", "/big:/data:ro"]').argv, "--volume")
    assert found[-2:] == [f"{tmp_path}/data:{tmp_path}/data", "/big:/data:ro"]


def test_the_files_of_a_container_are_the_user_s(tmp_path: Path) -> None:
    assert after(order(tmp_path, "docker").argv, "--user") == [f"{os.geteuid()}:{os.getegid()}"]


def test_text_and_ranks_run_by_what_the_image_has(tmp_path: Path) -> None:
    found = order(tmp_path, "docker", 'gpus = 2\nlaunch = "torchrun"').argv
    at = found.index("img:1")
    assert found[at + 1 : at + 4] == ("python3", "-m", "torch.distributed.run")


def test_docker_and_podman_are_told_to_the_launcher(tmp_path: Path) -> None:
    told = [order(tmp_path, program).container for program in ("docker", "podman", "apptainer")]
    assert told == ["docker", "podman", ""]  # whose processes descend from ours


def test_the_first_program_that_is_there_is_taken(tmp_path: Path) -> None:
    for name in ("podman", "apptainer"):
        (tmp_path / name).touch(0o755)
    there = {"PATH": str(tmp_path)}
    assert chosen("auto", there) == "podman"
    assert chosen("apptainer", there) == "apptainer"
    assert chosen("docker", there) is None


def test_a_docker_that_is_told_of_goes_first(tmp_path: Path) -> None:
    for name in ("podman", "docker"):
        (tmp_path / name).touch(0o755)
    assert chosen("auto", {"PATH": str(tmp_path), "DOCKER_HOST": "unix:///x"}) == "docker"


def test_a_docker_whose_daemon_can_be_reached_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudeck.engine.attempts.container._DOCKERS_SOCKET", str(tmp_path / "docker.sock"))
    for name in ("podman", "docker"):
        (tmp_path / name).touch(0o755)
    assert chosen("auto", {"PATH": str(tmp_path)}) == "podman"
    (tmp_path / "docker.sock").touch()
    assert chosen("auto", {"PATH": str(tmp_path)}) == "docker"


@pytest.mark.parametrize(
    ("command", "outcome", "told"),
    [
        ("podman run img", Outcome("cancelled", 137), "rm -f NAME"),
        (
            "podman run --rm --name run-1 img",
            Outcome("cancelled", 137),
            "container run-1 goes on, `podman rm -f run-1`",
        ),
        ("podman run --name=run.1 img", Outcome("cancelled", 137), "rm -f run.1"),
        ("podman run --name $HOSTNAME-x img", Outcome("cancelled", 137), "rm -f NAME"),
        ("podman run img; echo --name x", Outcome("cancelled", 137), "rm -f NAME"),
        ("podman run img", Outcome("signal", signal=9), "rm -f NAME"),
        ("podman run img", Outcome("cancelled", 143), ""),
        ("podman run img", Outcome("ok", 0), ""),
        ("podman run img", Outcome("exit", 137), ""),
        ("python train.py", Outcome("cancelled", 137), ""),
    ],
)
def test_where_a_container_program_s_client_was_killed_its_container_may_go_on(
    command: str, outcome: Outcome, told: str
) -> None:
    words = outlived(TaskSpec("t", "t", 0, Work(command), "f"), outcome)
    assert told in words
    assert bool(told) is bool(words)
