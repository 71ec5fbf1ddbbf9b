"""Which environment an attempt gets: what the deck was started with, less the session's own variables, plus ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from ..core.spec import TaskSpec

_SESSION_PREFIXES = ("SSH_", "TMUX", "DBUS_", "XDG_", "GPUDECK_")
_SESSION_NAMES = frozenset({"STY", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"})
_USER_FOLDERS = frozenset(
    {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS"}
)
"""Settings that outlive a login: without XDG_CACHE_HOME a cluster user's model caches would fill the home quota."""


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What of the caller's environment every attempt gets: all but what ends with the caller's session."""
    return {name: value for name, value in environ.items() if not _belongs_to_session(name)}


def attempt_environment(
    base: Mapping[str, str],
    spec: TaskSpec,
    finished_env: Sequence[tuple[str, str | None]],
    *,
    attempt: int,
    deck: str,
    token: str,
    log: str,
    run_dir: str,
    gpu_mem_mib: int | None,
    cuda_visible_devices: str | None,
    cpus: int | None,
    activate: bool = True,
) -> dict[str, str]:
    """The whole environment of one attempt.

    *base* comes from `base_environment`; *finished_env* is the work's env without placeholders left and goes last, None
    unsets. *cuda_visible_devices* is empty for a CPU task; *cpus* are the cores that numeric libraries may use, at
    least 1. Either is None where a cluster says it once the attempt runs there. *gpu_mem_mib* None or 0: not known, not
    set. *activate*: the task's Python goes first on PATH; False: *base* stays as it is.
    """
    env = dict(base)
    if activate:
        use_python(env, spec)
    env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if cuda_visible_devices is None:
        env.pop("CUDA_VISIBLE_DEVICES", None)
    else:
        env["CUDA_VISIBLE_DEVICES"] = cuda_visible_devices
    env["GPUDECK_TASK"] = spec.name
    env["GPUDECK_ATTEMPT"] = str(attempt)
    env["GPUDECK_DECK"] = deck
    env["GPUDECK_LOG"] = log
    env["GPUDECK_RUN_DIR"] = run_dir
    if gpu_mem_mib:
        env["GPUDECK_GPU_MEM_MIB"] = str(gpu_mem_mib)
    if cpus is not None:
        env.setdefault("OMP_NUM_THREADS", str(max(1, cpus)))
        env.setdefault("MKL_NUM_THREADS", str(max(1, cpus)))
    env.setdefault("PYTHONUNBUFFERED", "1")
    for name, value in finished_env:
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    # Last: without its token the processes of an attempt could not be found again.
    env["GPUDECK_TOKEN"] = token
    return env


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
