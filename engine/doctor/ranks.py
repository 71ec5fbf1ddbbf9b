"""`--distributed`: a tiny training really runs under torchrun in a task's Python."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .child import Ended, run
from .finding import Finding, fail, ok
from .inside_facts import script
from .subject import Interpreter

_LIMIT_S = 180.0
_WHAT = {
    "basic": "init, all_reduce and barrier work",
    "model": "all ranks have equal gradients, the mean of their own",
    "data": "the sampler is disjoint and complete",
}


@dataclass(frozen=True, slots=True)
class Launched:
    """What came of one launch."""

    ranks: int
    backend: str
    results: Sequence[dict[str, Any]]
    """Of each rank and test: "rank", "test", and "wrong", "" where all is well."""
    ended: Ended


def launch(python: Interpreter, ranks: int, visible: str) -> Launched:
    """Run the tests on *ranks* processes: nccl on as many GPUs where *visible* names them, gloo on the CPU where it is
    empty."""
    backend = "nccl" if visible else "gloo"
    folder = tempfile.mkdtemp(prefix="gpudeck-doctor-")
    try:
        program = os.path.join(folder, "ranks.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(script("ranks"))
        ended = _run(_quiet(python.seeing(visible)), ranks, [program, backend, folder])
        return Launched(ranks, backend, _results(folder, ranks), ended)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_ranks(launched: Launched) -> Iterator[Finding]:
    """A line a test."""
    on = f"{launched.ranks} rank{'s' * (launched.ranks != 1)}, {launched.backend}"
    for test, what in _WHAT.items():
        name = f"distributed {test}"
        mine = [each for each in launched.results if each["test"] == test]
        wrong = [f"rank {each['rank']}: {each['wrong']}" for each in mine if each["wrong"]]
        if wrong:
            yield fail(
                name, f"{on}: {'; '.join(wrong)}", "NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL tell more"
            )
            return
        if len(mine) < launched.ranks:
            yield fail(name, f"{on}: {_cause(launched.ended)}", _remedy(launched))
            return
        yield ok(name, f"{on}: {what}")
    if launched.ended.code != 0:
        yield fail("distributed", f"{on}: tests passed, then {launched.ended.how}", "ends of ranks are not clean here")


def _run(python: Interpreter, ranks: int, program: Sequence[str]) -> Ended:
    torchrun = [python.path, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return run([*torchrun, *program], env=python.env, cwd=python.cwd, limit_s=_LIMIT_S)


def _quiet(python: Interpreter) -> Interpreter:
    """Without what a surrounding launcher or task has set, and with little time to end."""
    inherited = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK")
    env = {name: value for name, value in python.env.items() if name not in inherited and "TORCHELASTIC" not in name}
    return replace(python, env={**env, "OMP_NUM_THREADS": "1", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "2"})


def _results(folder: str, ranks: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for rank in range(ranks):
        try:
            with open(os.path.join(folder, f"rank-{rank}"), encoding="utf-8") as file:
                found += [json.loads(line) for line in file]
        except (OSError, ValueError):
            continue
    return found


def _cause(ended: Ended) -> str:
    """The first error of a rank says more than the launcher's last line."""
    lines = (line.partition("]: ")[2] or line for line in ended.err.splitlines())
    errors = [line.strip() for line in lines if "Error: " in line and "ChildFailedError" not in line]
    return errors[0] if errors else ended.how


def _remedy(launched: Launched) -> str:
    if launched.ended.code is None:
        return "ranks wait for each other: NCCL_DEBUG=INFO tells more; try NCCL_P2P_DISABLE=1, NCCL_IB_DISABLE=1"
    return "torchrun with a script of two lines tells whether it is this Python"
