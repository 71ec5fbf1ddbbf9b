"""A task's Python: what a script in it told of torch, imports and fresh processes, and what that means."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .child import Ended, run
from .finding import Finding, fail, ok, warn
from .inside_facts import script, told
from .subject import Interpreter

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
    yield ok("python", f"{steps['python']['version']} at {python.path}{_tasks(python)}")
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


def _tasks(python: Interpreter) -> str:
    return f" ({python.tasks} task{'s' * (python.tasks != 1)})" if python.tasks else ""


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
