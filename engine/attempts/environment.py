"""The box that attempts run on, and the environment that each gets there: what the deck was started with, less the
session's own variables, plus ours."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..core.spec import TaskSpec
from .container import Program

if TYPE_CHECKING:  # who only looks for environments makes no copies
    from ..snapshot.code_versions import Code

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""How many threads numeric libraries start."""
_SESSION_PREFIXES = ("SSH_", "TMUX", "DBUS_", "XDG_", "GPUDECK_")
_SESSION_NAMES = frozenset({"STY", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"})
_USER_FOLDERS = frozenset(
    {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS"}
)
"""Settings that outlive a login: without XDG_CACHE_HOME a cluster user's model caches would fill the home quota."""


Across = Callable[[Sequence[str], int | None, int | None, Sequence[str]], tuple[str, ...] | None]
"""What a command becomes to run on another node, by its GPUs (UUIDs), cores, memory (MiB) and words; None: it runs here
as it is."""


@dataclass(slots=True)
class Box:
    """What attempts need to know about the box and the deck's start."""

    environment: Mapping[str, str]
    """What every attempt starts from."""
    visible: Callable[[tuple[str, ...]], str]
    """CUDA_VISIBLE_DEVICES for these UUIDs."""
    index_of: Mapping[str, int]
    cpus_each: int
    """Cores for a GPU task that asks for no number of its own."""
    cores: int = 1
    """Of the box."""
    now: Callable[[], float] = field(default=lambda: 0.0)
    """Seconds of CLOCK_BOOTTIME."""
    pid_ns: int = 0
    """Inode of our pid namespace."""
    notice: Callable[[str], None] = field(default=lambda _: None)
    oom_kills: Callable[[], int] = field(default=lambda: 0)
    """The kernel's count of processes that it killed for want of memory."""
    own_environment: Callable[[str], Mapping[str, str] | None] = field(default=lambda _: None)
    """What a task alone starts from, by name; None: from `environment`, like the others."""
    code: Code | None = None
    """Where tasks run copies of their code; None: they run it itself."""
    across: Across | None = None
    """None: all run here."""
    container: Program | None = None
    """What runs tasks with an image; None: nothing is there."""
    folder: str = ""
    """The task file's."""
    job_samples: str = ""
    """The folder in which jobs of a cluster tell what they use of their GPUs."""


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What of the caller's environment every attempt gets: all but what ends with the caller's session."""
    return {name: value for name, value in environ.items() if not _belongs_to_session(name)}


def attempt_environment(
    base: Mapping[str, str],
    spec: TaskSpec,
    ours: Mapping[str, str | None],
    env: Sequence[tuple[str, str | None]],
    *,
    threads: int | None,
    activate: bool = True,
) -> dict[str, str]:
    """The environment of an attempt: *base*, with the task's Python first on PATH unless it is to stay as it is, then
    *ours*, then *env*, the file's and a retry's. None unsets. *threads*: of each numeric library, where nobody else
    says; None: nobody knows."""
    found = dict(base)
    if activate:
        use_python(found, spec)
    found["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    for name in THREADS if threads is not None else ():
        found.setdefault(name, str(threads))
    found.setdefault("PYTHONUNBUFFERED", "1")
    for name, value in (*ours.items(), *env):
        if value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return found


def _belongs_to_session(name: str) -> bool:
    if name in _SESSION_NAMES:
        return True
    return name.startswith(_SESSION_PREFIXES) and name not in _USER_FOLDERS


def use_python(env: dict[str, str], spec: TaskSpec) -> None:
    """Do in *env* what activating the task's environment would do."""
    folder = os.path.dirname(spec.python or sys.executable)
    path = env.get("PATH") or os.defpath
    if folder and path != folder and not path.startswith(folder + os.pathsep):
        env["PATH"] = folder + os.pathsep + path
    if not spec.python:
        return
    env.pop("VIRTUAL_ENV", None)
    for name, value in spec.python_env:
        env[name] = value
        env.pop("PYTHONHOME", None)
        if name == "CONDA_PREFIX":
            env["CONDA_DEFAULT_ENV"] = os.path.basename(value)


def launching_python(spec: TaskSpec, own: Mapping[str, str] | None) -> str:
    """The Python whose torch or accelerate starts the ranks. *own*: what the task alone starts from."""
    if own is None:
        return spec.python or sys.executable
    # It was typed in another shell, which need not have the Python that runs us.
    found = (shutil.which(name, path=own.get("PATH")) for name in ("python", "python3"))
    return next(filter(None, found), spec.python or sys.executable)
