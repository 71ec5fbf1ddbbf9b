"""Job scripts run by bash alone, as a node would run them, without a Slurm."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gpudeck.engine.adapters.slurm import jobfiles
from gpudeck.engine.adapters.slurm import script as job_script
from gpudeck.engine.adapters.slurm.script import script
from gpudeck.engine.ports import JobOrder, StartOrder
from tests.e2e.decks import until

TOKEN = secrets.token_hex(12)
"""Processes of another run of the tests on this box are none of ours."""
PATIENCE_S = 30.0

JOB = JobOrder(
    task="train",
    attempt=1,
    gpus=0,
    nodes=1,
    cpus=None,
    memory_mib=None,
    limit_s=None,
    grace_s=30.0,
    linger_s=0.0,
    stop_signal="TERM",
    stop_scope="group",
    warn_signal=None,
    warn_before_s=300.0,
    tasks_per_node=0,
    options={},
    exclude=(),
    exclusive=False,
    script="/logs/train/attempt-1.sh",
    own_env=frozenset(),
)


def order_in(folder: Path, *argv: str, env: Mapping[str, str] | None = None, **more: object) -> StartOrder:
    """An attempt whose files lie in *folder*. *more*: fields of the order, or of its job."""
    of_job = {key: value for key, value in more.items() if key in JobOrder.__slots__}
    plain = StartOrder(
        token=TOKEN,
        argv=argv or ("true",),
        env={"PATH": os.environ["PATH"], **(env or {}), "GPUDECK_TOKEN": TOKEN},
        cwd=str(folder),
        stdout=f"{folder}/attempt-1.log",
        stderr=f"{folder}/attempt-1.err",
        job=replace(JOB, **{"script": f"{folder}/attempt-1.sh", **of_job}),  # type: ignore[arg-type]
    )
    return replace(plain, **{key: value for key, value in more.items() if key not in of_job})  # type: ignore[arg-type]


def change_wrapper(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """In what all jobs run."""
    text = job_script.WRAPPER
    assert old in text
    monkeypatch.setattr(job_script, "WRAPPER", text.replace(old, new))


def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watcher of a job looks at the shared folder soon, and twenty times a second, not once."""
    change_wrapper(monkeypatch, "gd_began > 200", "gd_began > 20")
    change_wrapper(monkeypatch, "read -r -t 1 -u 6 line", "read -r -t 0.05 -u 6 line")


@dataclass
class Node:
    """A node, and the one attempt that it is given."""

    folder: Path
    order: StartOrder
    control: str

    def run(self, job: str = "1234", **variables: str) -> subprocess.Popen[str]:
        """Start the script, as Slurm would for job *job*."""
        environ = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "SLURM_JOB_ID": job, **variables}
        return subprocess.Popen(
            ["env", "--default-signal", "/bin/bash", "-p", self.path],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run_to_its_end(self, job: str = "1234", **variables: str) -> int:
        with ending(self.run(job, **variables)) as process:
            return process.wait(PATIENCE_S)

    @property
    def path(self) -> str:
        assert self.order.job is not None
        return self.order.job.script

    @property
    def out(self) -> str:
        return text_of(self.order.stdout)

    @property
    def err(self) -> str:
        return text_of(self.order.stderr)

    @property
    def claim(self) -> str:
        return jobfiles.claimed_by(self.control, TOKEN)

    @property
    def began(self) -> jobfiles.Began:
        began = jobfiles.read_began(text_of(self.file("began")))
        assert began is not None
        return began

    @property
    def ended(self) -> jobfiles.Ended:
        return ended_in(self.control, TOKEN)

    def file(self, kind: str) -> str:
        return jobfiles.path(self.control, TOKEN, kind)

    def stop(self, signal_name: str = "TERM", grace_s: float = 60.0, scope: str = "group") -> None:
        jobfiles.write(self.control, TOKEN, "stop", jobfiles.stop_text(signal_name, grace_s, scope))  # type: ignore[arg-type]

    def warn(self, signal_name: str) -> None:
        jobfiles.write(self.control, TOKEN, "warn", jobfiles.warn_text(signal_name))

    def said(self, word: str) -> None:
        """Wait until its command has printed *word*."""
        until(lambda: word in self.out, PATIENCE_S)


def node_in(folder: Path, *argv: str, env: Mapping[str, str] | None = None, **more: object) -> Node:
    """With its script written, see `order_in`."""
    folder.mkdir(parents=True, exist_ok=True)
    order = order_in(folder, *argv, env=env, **more)
    control = jobfiles.control_folder(str(folder))
    os.makedirs(control, 0o700, exist_ok=True)
    node = Node(folder, order, control)
    Path(node.path).write_bytes(script(order, control).encode("utf-8", "surrogateescape"))
    return node


def ended_in(control: str, token: str) -> jobfiles.Ended:
    """How an attempt has ended, which has to be told."""
    ended = jobfiles.read_ended(text_of(jobfiles.path(control, token, "ended")))
    assert ended is not None, token
    return ended


def python(text: str) -> tuple[str, ...]:
    """A command."""
    return (sys.executable, "-S", "-c", text)


def text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return ""


@contextmanager
def ending(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """With all of its session gone behind it."""
    try:
        yield process
    finally:
        for pid in carriers():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def carriers() -> list[int]:
    """Processes that carry the attempt's token."""
    mark = f"GPUDECK_TOKEN={TOKEN}".encode()
    found = list[int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
