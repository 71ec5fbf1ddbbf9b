"""Everything about single tasks of the made-up deck, as an engine answers `show`, with the files it tells of."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gpudeck.engine.core.spec import Metric
from gpudeck.engine.serve.details import AttemptDetails, RunningDetails, TaskDetails
from tests.fakes.snapshot_deck import OOM
from tests.fakes.snapshot_rig import NOW_S

GIT = {"commit": "9f3c1d2e4b5a69788796a5b4c3d2e1f009182736", "branch": "noise", "dirty": True}
TRACEBACK = """\
Traceback (most recent call last):
  File "/home/ada/noise/train.py", line 212, in <module>
    main()
  File "/home/ada/noise/train.py", line 167, in main
    loss = step(model, batch)
  File "/home/ada/noise/train.py", line 98, in step
    return criterion(model(batch.images), batch.labels)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 44.99 GiB
"""


def paths(name: str, number: int) -> dict[str, str]:
    """Of an attempt's files, below the present folder: how they are shown does not depend on where that is."""
    stem = f"logs/{name}/attempt-{number}"
    return {"log": f"{stem}.log", "err": f"{stem}.err", "json": f"{stem}.json"}


def attempt(name: str, number: int, reason: str, kind: str, took_s: float, gpus: tuple[int, ...], **more: Any) -> Any:
    values: dict[str, Any] = {"exit_code": 1, "peak_mib": 0, "rung": 0, "rung_changes": (), **more}
    return AttemptDetails(
        number=number, reason=reason, kind=kind, gpus=gpus, duration_s=took_s, **paths(name, number), **values
    )


def lasting(name: str, number: int, for_s: float, gpus: tuple[int, ...], **more: Any) -> RunningDetails:
    values: dict[str, Any] = {"pid": 20_006, "expected_s": None, "rung": 0, "rung_changes": (), **more}
    return RunningDetails(
        number=number, gpus=gpus, started=NOW_S - for_s, elapsed_s=for_s, **paths(name, number), **values
    )


def task(name: str, state: str, **more: Any) -> dict[str, Any]:
    """An entry of the answer to `show`."""
    values: dict[str, Any] = {
        "entry": "train-{noise}-{rate}", "line": 14, "flags": (), "env": {"WANDB_MODE": "offline", "HF_TOKEN": "***"},
        "command": ("/home/ada/noise/.venv/bin/python", "train.py", "--root", "/data/caltech 101", "--rate", "0.125"),
        "cwd": "/home/ada/noise", "python": "/home/ada/noise/.venv/bin/python", "fingerprint": "f00", "round": 0,
        "group": "", "needs": (), "after": (), "waits_on": (), "needed_by": (), "gpus": 1,
        "outputs": (f"out/{name}.pt",),
        "metrics": (), "params": {"noise": "asym", "rate": "0.125"}, "tags": ("sweep",),
        "priority": 0,
        "effective_priority": 0, "retries_used": 0, "retries": 0, "retried_fresh": False, "retried_env": {},
        "retried_not_on": (), "waits_for": (), "running": None, "attempts": (),
    }  # fmt: skip
    return msgspec.to_builtins(TaskDetails(name=name, state=state, **{**values, **more}))


FAILED = task(
    "train-sym-0.5", "failed", params={"noise": "sym", "rate": "0.5"}, needed_by=("eval-sym", "gather"), retries=2,
    retries_used=2, metrics=(Metric("loss", r"loss=([0-9.]+)"),), retried_env={"NCCL_DEBUG": "INFO"},
    retried_not_on=("5",),
    attempts=(
        attempt("train-sym-0.5", 1, OOM, "oom", 1805, (3,), peak_mib=45_900),
        attempt("train-sym-0.5", 2, "timeout after 3 h", "timeout", 10_800, (5,), peak_mib=40_100, exit_code=None,
                rung=1, rung_changes=("--bs 16",)),
        attempt("train-sym-0.5", 3, OOM, "oom", 754, (3,), peak_mib=45_910, rung=2, rung_changes=("--bs 8",)),
    ),
)  # fmt: skip
RUNNING = task(
    "train-asym-0.125", "running", running=lasting("train-asym-0.125", 1, 3725, (0,)), priority=0, effective_priority=5,
    needs=("prepare",), waits_on=("prepare",), needed_by=("eval-asym",),
)  # fmt: skip
WAITING = task(
    "distill-ddp", "queued", flags=("held",), entry="distill-ddp", gpus=4, params={}, line=61, env={},
    needs=("train-sym-*",), waits_on=("train-sym-0.125", "train-sym-0.25", "train-sym-0.5"), tags=(),
    waits_for=(
        "held: H or `gpudeck release distill-ddp` lets it start",
        "GPU 0: train-asym-0.125 is on it, about 38 min more",
        "GPU 1: alice, pid 4711, 31.0 GiB",
        "GPU 3: needs 20.0 GiB free, 4.6 GiB are: train-both-0.125 has 40.0 GiB of it since 07:12",
        "host memory: needs 64.0 GiB, 41.2 GiB are available",
    ),
)  # fmt: skip
NEVER = task("prepare", "cached", entry="prepare", gpus=0, params={}, tags=(), line=3)


def answer(*known: Mapping[str, Any]) -> Callable[..., list[Mapping[str, Any]]]:
    """To `show`, for these tasks."""
    by_name = {each["name"]: each for each in known}

    def show(tasks: Sequence[str]) -> list[Mapping[str, Any]]:
        return [by_name[name] for name in tasks if name in by_name]

    return show


def write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def write_record(name: str, number: int, **end: Any) -> None:
    record: dict[str, Any] = {"git": GIT, "host": "gpu7", **({"end": end} if end else {})}
    write(paths(name, number)["json"], json.dumps(record))


def training(epochs: int = 12) -> str:
    """What a training script prints: bars that are drawn over, colours, and numbers that go down."""
    lines = ["\x1b[1mtrain.py\x1b[0m on cuda:0, 8677 images, 101 classes\n"]
    for epoch in range(1, epochs + 1):
        loss, acc = 4.6 / epoch + 0.05 * (epoch % 3), 0.9 - 0.85 / epoch
        lines.append(f"epoch {epoch}/20:  50%|█████     | 68/136\repoch {epoch}/20: 100%|██████████| 136/136\n")
        lines.append(f"epoch {epoch}/20 loss={loss:.4f} acc={acc:.4f} lr={3e-4 * 0.9**epoch:.2e}\n")
        if epoch % 5 == 0:
            lines.append(
                "\x1b[33mwarning:\x1b[0m 3 images could not be read: "
                "0012.jpg, 0107.jpg and 4410.jpg are left out of this epoch\n"
            )
    return "".join(lines)


def write_failed() -> None:
    """The files of FAILED."""
    name = FAILED["name"]
    for number in (1, 2, 3):
        write(paths(name, number)["log"], training(number))
        write(paths(name, number)["err"], TRACEBACK)
    write_record(name, 3, peak_mib=45_910, mean_mib=41_200, peak_util_percent=100, mean_util_percent=93.4)


def write_running() -> None:
    """The files of RUNNING."""
    name = RUNNING["name"]
    write(paths(name, 1)["log"], training())
    write(paths(name, 1)["err"], "")
    write_record(name, 1)
