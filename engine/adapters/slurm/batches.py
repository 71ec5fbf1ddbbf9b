"""One sbatch: the files that it needs, the call, and what its answer means. Blocks: for helper threads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...atomic import write_atomic
from ...ports import StartOrder
from .arrays import array_script
from .calls import run_program
from .jobfiles import map_text, write
from .parse import Refusal, refusal, submitted_id
from .script import SBATCH, script

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A script could not be written: sbatch was not called."""

    why: str


def submit(
    orders: Sequence[StartOrder], batch: str, control: str, environ: Mapping[str, str]
) -> str | Refusal | Unwritten:
    """The id that Slurm gave. *batch*: token of the array that several orders become."""
    try:
        path = _write(orders, batch, control)
    except OSError as error:
        return Unwritten(f"its script cannot be written: {error.filename or control}: {error.strerror or error}")
    answer = run_program((*SBATCH, path), environ, timeout_s=TIMEOUT_S)
    job_id = submitted_id(answer.out) if answer.ok else None
    return job_id or refusal(answer.code, answer.err)


def _write(orders: Sequence[StartOrder], batch: str, control: str) -> str:
    path = ""
    for order in orders:
        path = order.job.script if order.job is not None else ""
        _write_script(path, script(order, control))
    if not batch:
        return path
    write(control, batch, "map", map_text(order.token for order in orders))
    path = f"{control}/{batch}.sh"
    _write_script(path, array_script(orders, batch))
    return path


def _write_script(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_atomic(path, text.encode("utf-8", "surrogateescape"), mode=0o600, durable=False)
