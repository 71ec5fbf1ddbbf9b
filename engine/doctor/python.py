"""What the Python of a task can do, and a distributed training tried in it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..text import plural
from .child import Ended, run
from .finding import Finding, fail, ok, warn
from .subject import Interpreter

_FOLDER = os.path.join(os.path.dirname(__file__), "inside")
_MARK = "GPUDECK "


def script(name: str) -> str:
    """The text of a script, for `python -c`: its folder is not ours to put first on sys.path."""
    with open(os.path.join(_FOLDER, f"{name}.py"), encoding="utf-8") as file:
        return file.read()


def told(out: str) -> list[dict[str, Any]]:
    """The objects that a script wrote, among what imports may have printed."""
    found: list[dict[str, Any]] = []
    for line in out.splitlines():
        before, mark, rest = line.partition(_MARK)
        if mark and not before:
            try:
                found.append(json.loads(rest))
            except ValueError:
                continue
    return found


_LIMIT_S = 120.0
Fact = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What tasks expect of their Python."""

    gpus: int = 0
    """Real GPUs that are visible to the script; 0: none, whatever torch says is fine."""
    mig: bool = False
    """Some of them are instances: CUDA shows one at a time."""
    gangs: bool = False
    """Tasks on several GPUs."""


def look_inside(python: Interpreter, imports: Sequence[str], values: Mapping[str, str]) -> Ended:
    """Run the script. *values* go to a fresh process and back."""
    asked = json.dumps({"imports": list(imports), "values": dict(values)})
    return run(
        [python.path, "-c", script("python_facts")], env=python.env, cwd=python.cwd, limit_s=_LIMIT_S, stdin=asked
    )


def has_torch(ended: Ended) -> bool:
    return any(fact["step"] == "torch" and not fact["missing"] and not fact["error"] for fact in told(ended.out))


def sees_gpus(ended: Ended) -> bool:
    return any(fact["step"] == "torch" and fact.get("available") for fact in told(ended.out))


def check_python(python: Interpreter, ended: Ended, wanted: Wanted, imports: Sequence[str]) -> Iterator[Finding]:
    facts = told(ended.out)
    steps = {str(fact["step"]): fact for fact in facts}
    if "python" not in steps:
        yield fail("python", f"{python.path}: {ended.how}", "mend this environment, or name another with python = …")
        return
    tasks = f" ({plural(python.tasks, 'task')})" if python.tasks else ""
    yield ok("python", f"{steps['python']['version']} at {python.path}{tasks}")
    if "serialization" in steps:
        yield _serialization(steps["serialization"]["error"])
    if "torch" in steps:
        yield from _torch(python, steps, wanted)
    imported = [fact for fact in facts if fact["step"] == "import"]
    yield from _imports(python, imported, imports)
    if ended.code != 0:
        last = "import of " + imports[len(imported)] if len(imported) < len(imports) else str(facts[-1]["step"])
        at = "serialization" if "serialization" not in steps else "torch" if "torch" not in steps else last
        yield fail(
            "python", f"its check broke off at {at}: {ended.how}", f"run it by hand: {python.path} -c 'import torch'"
        )


def _serialization(error: str) -> Finding:
    if error:
        return fail(
            "serialization",
            f"values cannot be sent to a fresh worker process: {error}",
            "data loaders with workers need this: look at /dev/shm, ulimit -u and what this Python loads at its start",
        )
    return ok("serialization", "Serialization OK: the values of the tasks went to a fresh process and back")


def _torch(python: Interpreter, steps: Mapping[str, Fact], wanted: Wanted) -> Iterator[Finding]:
    fact = steps["torch"]
    if fact["missing"]:
        yield warn("torch", "not installed in this Python", f"{python.path} -m pip install torch, if tasks import it")
        return
    if fact["error"]:
        yield fail("torch", f"import torch: {fact['error']}", f"{python.path} -m pip install --force-reinstall torch")
        return
    yield _cuda(fact, wanted)
    if not fact["available"]:
        return
    yield from _bf16(steps.get("cuda"))
    yield from _nccl(steps.get("nccl"), wanted)


def _cuda(fact: Fact, wanted: Wanted) -> Finding:
    """ "CUDA: True, Devices: 4; torch 2.6.0 for CUDA 12.6"."""
    build = f"for CUDA {fact['cuda']}" if fact["cuda"] else f"for ROCm {fact['hip']}" if fact["hip"] else "for CPU"
    text = f"CUDA: {fact['available']}, Devices: {fact['devices']}; torch {fact['version']} {build}"
    if not wanted.gpus:
        return ok("torch", text)
    if not fact["available"]:
        why = f" ({fact['warnings'][0]})" if fact["warnings"] else ""
        remedy = (
            "the build wants another driver, or something in the environment hides the GPUs"
            if fact["cuda"]
            else "this build knows no GPU: take another from https://pytorch.org/get-started/locally"
        )
        return fail("torch", text + why, remedy)
    expected = 1 if wanted.mig else wanted.gpus
    if fact["devices"] != expected:
        return fail("torch", f"{text}, and {expected} were given", "what changes CUDA_VISIBLE_DEVICES in this Python?")
    return ok("torch", text)


def _bf16(fact: Fact | None) -> Iterator[Finding]:
    if fact is None:
        return
    if fact.get("error"):
        yield fail("bf16", f"CUDA cannot be used: {fact['error']}", "run a small tensor on each GPU by hand")
    elif fact["bf16"]:
        yield ok("bf16", f"supported (compute capability {', '.join(fact['kinds'])})")
    else:
        kinds = ", ".join(fact["kinds"])
        yield warn("bf16", f"not on all GPUs (compute capability {kinds})", "use fp16, or GPUs from 8.0 on")


def _nccl(fact: Fact | None, wanted: Wanted) -> Iterator[Finding]:
    if fact is None:
        return
    if fact["version"]:
        yield ok("NCCL", fact["version"])
    elif wanted.gangs:
        yield fail("NCCL", fact.get("error") or "not in this torch", "tasks on several GPUs need a torch that has it")
    else:
        yield ok("NCCL", "not in this torch; no task runs on several GPUs")


def _imports(python: Interpreter, facts: Sequence[Fact], wanted: Sequence[str]) -> Iterator[Finding]:
    for fact in facts:
        if fact["error"]:
            remedy = f"{python.path} -m pip install it, or tell tasks to do without"
            yield warn("imports", f"import {fact['name']}: {fact['error']}", remedy)
    good = [fact["name"] for fact in facts if not fact["error"]]
    if wanted and len(good) == len(wanted):
        yield ok("imports", f"Imports OK: {', '.join(good)}")


_TRAINING_LIMIT_S = 180.0
_WHAT = {
    "basic": "init, all_reduce and barrier work",
    "model": "all ranks have equal gradients, the mean of their own",
    "data": "the sampler is disjoint and complete",
}


Results = Sequence[dict[str, Any]]
"""Of each rank and test: "rank", "test", and "wrong", "" where all is well."""


def launch(python: Interpreter, ranks: int, visible: str) -> tuple[int, str, Results, Ended]:
    """Run the tests on *ranks* processes: nccl on as many GPUs where *visible* names them, gloo on the CPU where it is
    empty. Returns what `check_ranks` judges."""
    backend = "nccl" if visible else "gloo"
    folder = tempfile.mkdtemp(prefix="gpudeck-doctor-")
    try:
        program = os.path.join(folder, "ranks.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(script("ranks"))
        quiet = _quiet(python.seeing(visible))
        torchrun = [quiet.path, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        argv = [*torchrun, program, backend, folder]
        ended = run(argv, env=quiet.env, cwd=quiet.cwd, limit_s=_TRAINING_LIMIT_S)
        return ranks, backend, _results(folder, ranks), ended
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_ranks(ranks: int, backend: str, results: Results, ended: Ended) -> Iterator[Finding]:
    """A line a test."""
    on = f"{plural(ranks, 'rank')}, {backend}"
    for test, what in _WHAT.items():
        name = f"distributed {test}"
        mine = [each for each in results if each["test"] == test]
        wrong = [f"rank {each['rank']}: {each['wrong']}" for each in mine if each["wrong"]]
        if wrong:
            yield fail(
                name, f"{on}: {'; '.join(wrong)}", "NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL tell more"
            )
            return
        if len(mine) < ranks:
            yield fail(name, f"{on}: {_cause(ended)}", _remedy(ended))
            return
        yield ok(name, f"{on}: {what}")
    if ended.code != 0:
        yield fail("distributed", f"{on}: tests passed, then {ended.how}", "ends of ranks are not clean here")


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


def _remedy(ended: Ended) -> str:
    if ended.code is None:
        return "ranks wait for each other: NCCL_DEBUG=INFO tells more; try NCCL_P2P_DISABLE=1, NCCL_IB_DISABLE=1"
    return "torchrun with a script of two lines tells whether it is this Python"
