"""A job of a second: does it begin, and does what it writes into log_dir arrive here?"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace

from ..adapters.slurm.states import stand
from ..adapters.state.mounts import NETWORK_FILE_SYSTEMS, file_system
from .child import Ended
from .finding import Finding, fail, ok, warn
from .slurm import Call, Wish

_LIMIT_S = 60.0
_ASK_S = 2.0
_LOOK_S = 0.1
_LATE_S = 10.0
"""A file server may show a file so late."""
_GONE = "Invalid job id"
_OF_ITS_OWN = ("--time=", "--nodes=", "--ntasks-per-node=", "--exclusive", "--signal=")
"""What it asks for otherwise than the task: it is to begin soon, and does next to nothing."""


@dataclass(frozen=True, slots=True)
class Trial:
    log_dir: str
    file_system: str
    job: str = ""
    """"": it was not submitted."""
    refused: Ended | None = None
    told: dict[str, str] = field(default_factory=dict[str, str])
    """What it wrote."""
    state: str = ""
    """Slurm's last word on it, and why."""
    took_s: float = 0.0
    trouble: str = ""
    """Why nothing could be tried."""


def try_job(call: Call, wish: Wish, log_dir: str, limit_s: float = _LIMIT_S) -> Trial:
    """Submit, wait, cancel what has not ended, and leave nothing."""
    kind = file_system(log_dir)
    made: list[str] = []
    try:
        _make(log_dir, made)
        with _paper(log_dir) as path:
            return _try(call, wish, Trial(log_dir, kind), path, limit_s)
    except OSError as error:
        return Trial(log_dir, kind, trouble=f"{error.filename}: {error.strerror}")
    finally:
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def check_trial(trial: Trial, wish: Wish) -> Iterator[Finding]:
    """Two lines, or three: the job, log_dir, the tasks' Python there."""
    name, where = "trial job", trial.log_dir
    if trial.trouble:
        yield fail("log_dir", trial.trouble, "choose another log_dir")
    elif trial.refused is not None:
        yield fail(name, f"sbatch: {trial.refused.how}", "[slurm], or the task's own slurm")
    elif trial.told:
        node = trial.told.get("host", "a node")
        yield ok(name, f"job {trial.job} ran on {node} and was heard of after {trial.took_s:.1f} s")
        yield ok("log_dir", f"{node} writes into {where} ({trial.file_system or 'unknown file system'}), seen here")
        yield from _of_the_node(trial, wish, node)
    elif _is_over(trial.state):
        text = f"job {trial.job} ended ({trial.state or 'gone'}), and its file never came to {where}"
        remedy = "log_dir on a file system that all nodes share: --log-dir, log_dir in [deck]"
        yield fail("log_dir", f"{text} ({trial.file_system or 'unknown file system'})", remedy)
    else:
        text = f"job {trial.job} did not end in {trial.took_s:.0f} s ({trial.state}): cancelled"
        yield warn(name, text, "nothing need be wrong: try again when the cluster is less full")
        if trial.file_system not in NETWORK_FILE_SYSTEMS:
            kind = trial.file_system or "unknown file system"
            yield warn("log_dir", f"{where} ({kind})", "all nodes have to see it: is it shared?")


def _of_the_node(trial: Trial, wish: Wish, node: str) -> Iterator[Finding]:
    if trial.told.get("cwd") == "no":
        yield fail("trial job", f"{node} has no folder {wish.cwd}", "put it on a file system that the nodes share")
    if trial.told.get("python") == "no":
        yield fail("trial job", f"{node} has no {wish.python}", "a Python on a file system that the nodes share")


def _try(call: Call, wish: Wish, trial: Trial, path: str, limit_s: float) -> Trial:
    began = time.monotonic()
    arguments = [word for word in wish.arguments if not word.startswith(_OF_ITS_OWN)]
    sent = call(
        "sbatch", "--parsable", "--job-name=gpudeck-doctor", "--time=1", "--output=/dev/null", "--no-requeue",
        f"--chdir={os.sep}", *arguments, stdin=_script(wish, path),
    )  # fmt: skip
    job = sent.out.strip().partition(";")[0]
    if sent.code != 0 or not job.isdecimal():
        return replace(trial, refused=sent)
    state = ""
    try:
        state = _wait(call, job, lambda: os.path.exists(path), limit_s)
    finally:
        call("scancel", job)
    return replace(trial, job=job, told=_read(path), state=state, took_s=time.monotonic() - began)


def _wait(call: Call, job: str, arrived: Callable[[], bool], limit_s: float) -> str:
    """Until its file came, or it ended without, or time is up; Slurm's last word on it."""
    state, asked = "PENDING", time.monotonic()
    deadline = asked + limit_s
    while not arrived() and time.monotonic() < deadline:
        if time.monotonic() - asked >= _ASK_S:
            asked = time.monotonic()
            answer = call("squeue", "-h", "-j", job, "-t", "all", "-o", "%T %r")
            if answer.code == 0 or _GONE in answer.err:
                state = answer.out.strip() if answer.code == 0 else ""
            if _is_over(state):
                deadline = min(deadline, asked + _LATE_S)
        time.sleep(_LOOK_S)
    return state


def _is_over(state: str) -> bool:
    """Also where Slurm has forgotten it."""
    return not state or stand(state) == "over"


def _script(wish: Wish, path: str) -> str:
    """What the job's shell does; the file is there whole or not at all."""
    file = shlex.quote(path)
    checks = [("cwd", f"[ -d {shlex.quote(wish.cwd)} ]")]
    if wish.python:
        checks.append(("python", f"command -v {shlex.quote(wish.python)}"))
    lines = [f"{test} >/dev/null && echo {name}=yes || echo {name}=no" for name, test in checks]
    extra = "".join(f"#SBATCH {line}\n" for line in wish.extra)
    return (
        f"#!/bin/bash\n{extra}{{ echo host=${{SLURMD_NODENAME:-$HOSTNAME}}; {'; '.join(lines)}; }} >{file}.new\n"
        f"mv {file}.new {file}\n"
    )


@contextlib.contextmanager
def _paper(folder: str) -> Generator[str]:
    """The path of the file that the job is to write; removed at the end."""
    path = os.path.join(folder, f".doctor-{secrets.token_hex(4)}")
    try:
        yield path
    finally:
        for each in (path, f"{path}.new"):
            with contextlib.suppress(OSError):
                os.unlink(each)


def _make(folder: str, made: list[str]) -> None:
    """*made* gets the folders that were not there."""
    if os.path.isdir(folder):
        return
    _make(os.path.dirname(folder), made)
    os.mkdir(folder)
    made.append(folder)


def _read(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            pairs = [line.strip().partition("=") for line in file]
    except FileNotFoundError:
        return {}
    return {name: value for name, _, value in pairs}
