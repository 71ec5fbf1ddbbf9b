"""What the host's numbers mean for training."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from gpudeck.engine.core.spec import DeckSettings, TaskSpec
from tests.inside.doctor import (
    Call,
    Disk,
    Limits,
    Logout,
    check_disk,
    check_kernel,
    check_load,
    check_logout,
    check_ports,
    check_shared_memory,
    check_slurm,
    host_look,
    load,
    look_for_programs,
    workers_in,
)
from tests.inside.doctor import host_checks_check_limits as check_limits


def tasks_of(tmp_path: Path, text: str) -> list[TaskSpec]:
    path = tmp_path / "tasks.toml"
    path.write_text(text)
    return list(load(str(path)).tasks)


@pytest.mark.parametrize(
    ("disk", "level"),
    [
        (Disk("/logs", 90_000, 100_000, "ext4"), "ok"),
        (Disk("/logs", 5_000, 100_000, "ext4"), "warn"),
        (Disk("/logs", 90_000, 100_000, "nfs4"), "warn"),
        (Disk("/logs", 50, 100_000, "nfs4"), "fail"),
        (Disk("/logs", 90_000, 100_000, "ext4", "may not be written"), "fail"),
        (Disk("/logs", trouble="no answer in 5 s"), "fail"),
    ],
)
def test_a_disk_is_judged_by_its_room_its_kind_and_whether_it_answers(disk: Disk, level: str):
    assert check_disk(disk).level == level


def test_the_disk_of_a_log_folder_that_does_not_exist_yet_is_that_of_the_folder_above(tmp_path: Path):
    found = host_look.disk(str(tmp_path / "logs" / "deep"))
    assert found.total_mib > 0
    assert found.kind
    assert found.trouble == ""


def test_the_shared_memory_of_a_container_is_too_small():
    assert check_shared_memory(Disk("/dev/shm", 64, 64, "tmpfs")).level == "warn"
    assert check_shared_memory(Disk("/dev/shm", 100, 32_000, "tmpfs")).level == "warn"
    assert check_shared_memory(Disk("/dev/shm", 31_000, 32_000, "tmpfs")).level == "ok"


def test_limits_are_judged_by_what_is_left_of_them():
    assert [each.level for each in check_limits(Limits(1024, 524288, None, 300))] == ["ok", "ok"]
    files, processes = check_limits(Limits(256, 4096, 1200, 300))
    assert (files.level, processes.level) == ("warn", "warn")
    assert files.remedy.startswith("ulimit -n 4096 ")


def test_our_own_threads_are_counted():
    assert host_look.limits().processes_now >= 1


def test_a_port_that_torchrun_wants_and_a_host_without_a_name_are_warned_of():
    assert [each.level for each in check_ports(free=True, torchrun_taken=False)] == ["ok"]
    assert [each.level for each in check_ports(free=True, torchrun_taken=True)] == ["warn"]
    assert [each.level for each in check_ports(free=True, torchrun_taken=False, trouble="box: unknown")] == ["warn"]
    assert [each.level for each in check_ports(free=False, torchrun_taken=False)] == ["fail"]


def test_a_listener_on_torchruns_port_is_seen():
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", 29500))
            listener.listen(1)
        except OSError:
            pass  # somebody else's, which is as good
        assert not host_look.can_bind(host_look.TORCHRUN_PORT)


def test_a_logout_that_ends_processes_is_warned_of_with_the_command_that_helps():
    found = check_logout(Logout("session", kills=True, lingers=False, user="alice"))
    assert (found.level, found.remedy) == ("warn", "loginctl enable-linger alice")
    assert check_logout(Logout("elsewhere", kills=False, lingers=False)).level == "ok"
    assert check_logout(None).level == "warn"


def test_what_the_kernel_lacks_is_named():
    assert check_kernel([]).level == "ok"
    assert check_kernel(["pidfd"]).text == "lacks pidfd"


# -- cores ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "workers"),
    [
        ("python train.py --num-workers 8", 8),
        ("python train.py --num_workers=6 --epochs 3", 6),
        ("python train.py data.num_workers=4", 4),
        ("python train.py --workers 2", 2),
        ("python train.py --dataloader_num_workers 3", 3),
        ("python train.py --coworkers 9 --epochs 10", 0),
    ],
)
def test_a_command_tells_its_data_loader_workers(tmp_path: Path, command: str, workers: int):
    (task,) = tasks_of(tmp_path, f"[[task]]\nname = 'a'\ncommand = '{command}'\n")
    assert workers_in(task) == workers


def test_more_workers_than_cores_are_warned_of_with_how_many_fit(tmp_path: Path):
    text = "[[task]]\nname = 'a-{i}'\nmatrix.i = [1, 2, 3]\ncommand = 'python t.py --num-workers 8'\n"
    tasks = tasks_of(tmp_path, text)
    found = check_load(tasks, DeckSettings(), gpus=2, cores=8)
    assert (found.level, found.text) == ("warn", "8 for 16 data loader workers: 2 × 8 with tasks like a-1")
    assert found.remedy.startswith("at most 4 a process")
    assert check_load(tasks, DeckSettings(), gpus=2, cores=16).level == "ok"
    assert check_load(tasks, DeckSettings(slots_per_gpu=2), gpus=2, cores=16).level == "warn"
    assert check_load((), DeckSettings(), gpus=2, cores=16).level == "ok"


# -- programs ---------------------------------------------------------------------------------------------------------


def missing(tmp_path: Path, text: str) -> list[tuple[str, bool]]:
    found = look_for_programs(tasks_of(tmp_path, text), os.environ)
    return [(each.text.partition(": ")[2], each.level == "warn") for each in found]


def test_programs_and_scripts_that_are_not_there_are_named_once_an_entry(tmp_path: Path):
    (tmp_path / "run.sh").touch()
    text = """
        [[task]]
        name = "a-{i}"
        matrix.i = [1, 2]
        command = ["{python}", "-u", "train.py", "--i", "{i}"]
        [[task]]
        name = "b"
        command = ["./run.sh"]
        [[task]]
        name = "c"
        needs = ["b"]
        command = "python3 made.py | tee x"
        [[task]]
        name = "d"
        command = ["no-such-program"]
        [[task]]
        name = "e"
        command = "pyton train.py > x"
        [[task]]
        name = "f"
        cwd = "nowhere"
        command = "pyton train.py"
    """
    assert missing(tmp_path, text) == [
        (f"train.py is not in {tmp_path}", False),
        (f"{tmp_path}/./run.sh is not executable", False),
        (f"made.py is not in {tmp_path}", True),
        ("no-such-program is not on the task's PATH", False),
        ("pyton is not on the task's PATH", False),
        (f"cwd {tmp_path}/nowhere is not there", False),
    ]


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("bash x.sh --fast", "x.sh"),
        ("sh run", "run"),
        ("set -e; bash -eu -o pipefail tools/x.sh 2> err", "tools/x.sh"),
        ("torchrun --nproc_per_node 2 --master-port=0 train.py --lr 1", "train.py"),
        ("accelerate launch --config_file acc.yaml train.py", "train.py"),
        ("FOO=2 BAR='a b' python -u -W ignore train.py", "train.py"),
        ("CUDA_LAUNCH_BLOCKING=1 nohup python3.11 train.py > log.txt 2>&1 &", "train.py"),
        ("module load cuda && srun python train.py | tee x", "train.py"),
        ("if true; then\n  {python} 'my train.py'\nfi; bash x.sh", "x.sh"),
        (["bash", "-c", "python train.py --lr 1"], "train.py"),
        (["env", "A=1", "torchrun", "train.py"], "train.py"),
        ("python -s {script}.py", "made.py"),
    ],
)
def test_a_script_behind_an_interpreter_a_shell_or_a_launcher_is_looked_for(
    tmp_path: Path, command: object, script: str
):
    text = f'vars.script = "made"\n[[task]]\nname = "a"\ncommand = {json.dumps(command)}\n'
    assert (f"{script} is not in {tmp_path}", False) in missing(tmp_path, text)


@pytest.mark.parametrize(
    "command",
    [
        "bash -c 'exit 0'",
        "bash -lc 'train now'",
        "bash -s x < /dev/null",
        "sh < x.sh",
        "bash <(echo true) y",
        "python -m pkg.train config.py",
        "torchrun -m pkg.train config.py",
        "python - config.py",
        "curl -sO https://example.org/x.sh && bash x.sh",
        "cat > x.py <<EOF\nprint(1)\nEOF\npython x.py",
        "git clone https://example.org/r && python r/train.py",
        "echo bash x.sh; printf python y.py",
        "docker run image python train.py",
        "bash $HOME/x.sh",
        "bash out/*.sh",
        "true # bash x.sh; bash x.sh\n# bash y.sh",
        "python 'it is not closed.py",
        "bash on-path",
        ["echo", "bash", "x.sh"],
    ],
)
def test_a_script_that_may_be_there_or_is_none_is_not_complained_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: object
):
    (tmp_path / "bin").mkdir()
    for name in ("on-path", "git", "docker", "curl"):
        (tmp_path / "bin" / name).touch(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert missing(tmp_path, f'[[task]]\nname = "a"\ncommand = {json.dumps(command)}\n') == []


def test_a_program_behind_variables_is_looked_for(tmp_path: Path):
    text = """
        [[task]]
        name = "a"
        command = "A=1 B='x y' no-such-program --fast"
        [[task]]
        name = "b"
        command = "PATH=/opt/tools no-such-program"
        [[task]]
        name = "c"
        command = "A=$(cat x) no-such-program"
    """
    assert missing(tmp_path, text) == [("no-such-program is not on the task's PATH", False)]


def test_what_is_there_or_cannot_be_known_is_not_complained_about(tmp_path: Path):
    (tmp_path / "run.sh").touch(stat.S_IRWXU)
    (tmp_path / "train.py").touch()
    text = """
        [[task]]
        name = "a"
        command = "{python} train.py && cd sub && python other.py"
        [[task]]
        name = "b"
        command = ["./run.sh"]
        [[task]]
        name = "c"
        command = "python -m mypkg.train --config x.py; read x"
        [[task]]
        name = "d"
        command = "for x in 1 2; do ls; done"
        [[task]]
        name = "e"
        env.PATH = "/opt/tools"
        command = ["/bin/sh"]
    """
    assert missing(tmp_path, text) == []


# -- Slurm ------------------------------------------------------------------------------------------------------------


def test_slurm_is_found_and_one_that_does_not_answer_is_no_failure(tmp_path: Path):
    assert check_slurm(Call({"PATH": str(tmp_path)})).text == "not found"
    for name, text in (("sbatch", "echo slurm 22.05.8"), ("squeue", "exit 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    found = check_slurm(Call({"PATH": f"{tmp_path}:/bin"}))
    assert (found.level, found.text) == ("ok", "found: slurm 22.05.8, its controller answers")
    (tmp_path / "squeue").write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2; exit 1\n")
    found = check_slurm(Call({"PATH": f"{tmp_path}:/bin"}))
    assert found.level == "warn"
    assert "Unable to contact slurm controller" in found.text
