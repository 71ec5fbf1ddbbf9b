"""Whether Slurm is here and answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from .child import Ended, run
from .finding import Finding, ok, warn

_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Slurm:
    version: Ended
    """`sbatch --version`."""
    controller: Ended
    """`squeue` for our own jobs: the controller has to answer it."""


def look_for_slurm(environ: Mapping[str, str]) -> Slurm | None:
    """None: there is no sbatch."""
    path = environ.get("PATH")
    sbatch, squeue = (shutil.which(name, path=path) for name in ("sbatch", "squeue"))
    if sbatch is None:
        return None
    root = os.path.abspath(os.sep)
    version = run([sbatch, "--version"], env=environ, cwd=root, limit_s=_LIMIT_S)
    asked = [squeue or "squeue", "-h", "-u", str(os.getuid()), "-o", "%i"]
    return Slurm(version, run(asked, env=environ, cwd=root, limit_s=_LIMIT_S))


def check_slurm(slurm: Slurm | None) -> Finding:
    if slurm is None:
        return ok("Slurm", "not found")
    text = slurm.version.out.strip() or "sbatch"
    if slurm.controller.code != 0:
        return warn("Slurm", f"found: {text}; squeue: {slurm.controller.how}", "ask whoever runs the cluster")
    return ok("Slurm", f"found: {text}, its controller answers")
