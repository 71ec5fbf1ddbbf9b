"""Whether we run in a Slurm job of several nodes, and what it has on them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from ...errors import EngineUnavailableError
from .nodes import Allocation, nodes_of, shares

_LIMIT_S = 30.0
_UNKNOWN = "Invalid job id"


def look_at_allocation(environ: Mapping[str, str]) -> Allocation | None:
    """None: we run in no job, or in one of a single node and on it. Raises EngineUnavailableError where Slurm does not
    tell what the job has."""
    job = environ.get("SLURM_JOB_ID", "")
    here = environ.get("SLURMD_NODENAME", "")
    if not job or (here and environ.get("SLURM_JOB_NUM_NODES", "1") == "1"):
        return None
    found = shares(_scontrol(environ, "show", "job", "-d", job, missing=_over(job)))
    if not found:
        raise EngineUnavailableError(_over(job))
    hosts = [_scontrol(environ, "show", "hostnames", share.nodes).split() for share in found]
    nodes = nodes_of(found, hosts)
    return Allocation(job, nodes, here if any(node.name == here for node in nodes) else "")


def _over(job: str) -> str:
    return f"SLURM_JOB_ID is {job}, and that job is over: `unset SLURM_JOB_ID` where this is to run outside of jobs"


def _scontrol(environ: Mapping[str, str], *words: str, missing: str = "") -> str:
    """*missing*: what to say where Slurm does not know what is asked for."""
    what = f"scontrol {' '.join(words)}"
    try:
        done = subprocess.run(
            ["scontrol", *words], env=dict(environ), cwd=os.path.abspath(os.sep), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineUnavailableError(f"{what} does not answer, to tell which GPUs this job has: {error}") from error
    if done.returncode:
        why = _last_line([done.stderr, done.stdout])
        if missing and _UNKNOWN in why:
            raise EngineUnavailableError(missing)
        raise EngineUnavailableError(f"{what} fails, and which GPUs this job has is not known: {why}")
    return done.stdout


def _last_line(texts: Sequence[str]) -> str:
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no word why"
