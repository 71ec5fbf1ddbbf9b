"""Scripts run as the processes of one training, and what each of them wrote down."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"
_PLACES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_LONGEST_S = 400


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str


def clean_environment() -> dict[str, str]:
    """Nothing of a launcher, Slurm or gpudeck around the tests; no GPU, so that any box gives the same."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in _PLACES and not name.startswith(("SLURM_", "GPUDECK_", "TORCHELASTIC_"))
    }
    return {**inherited, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPTS.parents[2])}


def launched(launcher: Sequence[str], script: str, *arguments: str) -> Ended:
    """Run by a launcher's module (`torch.distributed.run …`), or plainly without one."""
    module = ("-m", *launcher) if launcher else ()
    command = (sys.executable, *module, str(SCRIPTS / script), *arguments)
    done = subprocess.run(
        command, env=clean_environment(), capture_output=True, text=True, timeout=_LONGEST_S, check=False
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def torchrun(count: int, script: str, *arguments: str) -> Ended:
    return launched(("torch.distributed.run", "--standalone", f"--nproc-per-node={count}"), script, *arguments)


def started_by_hand(script: str, environments: Sequence[Mapping[str, str]], *arguments: str) -> list[Ended]:
    """A process for each of the *environments*, side by side, as a job script would start them."""
    command = (sys.executable, str(SCRIPTS / script), *arguments)
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(command, env={**clean_environment(), **each}, stdout=pipe, stderr=pipe, text=True)
        for each in environments
    ]
    try:
        said = [process.communicate(timeout=_LONGEST_S) for process in running]
    finally:
        for process in running:
            process.kill()
    return [Ended(process.returncode, *each) for process, each in zip(running, said, strict=True)]


def rank_environments(ranks: Sequence[int], world_size: int, **more: str) -> list[dict[str, str]]:
    shared = {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **more}
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in ranks]


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def written(folder: Path) -> list[dict[str, Any]]:
    """What the ranks wrote, in their order."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank*.json"))]
