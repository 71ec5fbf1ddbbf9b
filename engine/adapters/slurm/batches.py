"""One sbatch: the files that it needs, the call, and what its answer means. Blocks: for helper threads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...atomic import write_atomic
from ...ports import StartOrder
from .arrays import array_script
from .calls import NOT_BEGUN, run_program
from .jobfiles import map_text, write
from .jobs import Job
from .parse import Refusal, refusal, submitted_id
from .script import SBATCH, script, unasked

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Taken:
    """Slurm has it."""

    job_id: str
    anywhere: bool = False
    """Also on nodes that failed under it: with them excluded it was refused."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A script could not be written: sbatch was not called."""

    why: str


@dataclass(frozen=True, slots=True)
class Unbegun:
    """There is no sbatch now, or no process for it: a file server that is away, a new version being installed."""

    why: str


Submission = Taken | Refusal | Unwritten | Unbegun


def longest_s(orders: Sequence[StartOrder]) -> float:
    """What `submit` may take at most."""
    return 2 * TIMEOUT_S if _avoid(orders) else TIMEOUT_S


def submit(orders: Sequence[StartOrder], batch: str, control: str, environ: Mapping[str, str]) -> Submission:
    """Hand it to Slurm. *batch*: token of the array that several orders become."""
    answer = _submit(orders, batch, control, environ)
    if not _avoid(orders) or not isinstance(answer, Refusal) or answer.kind != "no":
        return answer
    answer = _submit([anywhere(order) for order in orders], batch, control, environ)
    return replace(answer, anywhere=True) if isinstance(answer, Taken) else answer


def anywhere(order: StartOrder) -> StartOrder:
    """The same, on any node that the task itself does not exclude."""
    return order if order.job is None else replace(order, job=replace(order.job, exclude=()))


def told_anywhere(jobs: Sequence[Job]) -> str:
    """For people: jobs that may go back to nodes that failed under them."""
    orders = [job.order.job for job in jobs if job.order is not None and job.order.job is not None]
    nodes = ", ".join(sorted({node for order in orders for node in order.exclude}))
    more = f" and {len(orders) - 1} more" if len(orders) > 1 else ""
    return (
        f"{orders[0].task}{more}: Slurm has no other node now than what failed before ({nodes}), which is not avoided"
    )


def _avoid(orders: Sequence[StartOrder]) -> bool:
    """Whether nodes are excluded that failed under them."""
    return any(order.job is not None and order.job.exclude for order in orders)


def _submit(orders: Sequence[StartOrder], batch: str, control: str, environ: Mapping[str, str]) -> Submission:
    try:
        path = _write(orders, batch, control)
    except OSError as error:
        return Unwritten(f"its script cannot be written: {error.filename or control}: {error.strerror or error}")
    job = orders[0].job
    environ = environ if job is None else unasked(environ, job)
    answer = run_program(SBATCH, environ, timeout_s=TIMEOUT_S, stdin=path)
    job_id = submitted_id(answer.out) if answer.ok else None
    if job_id:
        return Taken(job_id)
    refused = refusal(answer.code, answer.err)
    return Unbegun(refused.why or f"exit code {NOT_BEGUN}") if answer.code == NOT_BEGUN else refused


def _write(orders: Sequence[StartOrder], batch: str, control: str) -> str:
    path = ""
    for order in orders:
        path = order.job.script if order.job is not None else ""
        _write_script(path, script(order, control))
        _write_record(order)
    if not batch:
        return path
    write(control, batch, "map", map_text(order.token for order in orders))
    path = f"{control}/{batch}.sh"
    _write_script(path, array_script(orders, batch))
    return path


def _write_script(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_atomic(path, text.encode("utf-8", "surrogateescape"), mode=0o600, durable=False)


def _write_record(order: StartOrder) -> None:
    """An engine that has lost the journal may then know of the job from its first moment. What is there of the same
    attempt says more, and stays."""
    if order.job is None or not order.job.record:
        return
    path = f"{order.job.script.removesuffix('.sh')}.json"
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        if order.token.encode() in file.read():
            return
    write_atomic(path, order.job.record, durable=False)
