"""Whether tasks see their own GPU alone: a tiny process on each GPU, all at the same time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from ..text import plural
from .child import Child
from .finding import Finding, fail, ok, warn
from .python import script, told
from .subject import Interpreter

_LIMIT_S = 120.0
_LOOK_S = 0.02
How = Literal["touch", "look", "environment"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where one of the processes runs."""

    label: str
    """ "GPU 3", "SIM 0", "CPU 0"."""
    visible: str
    """Its CUDA_VISIBLE_DEVICES."""
    uuid: str = ""
    """Of the one GPU that it must see; "" where there is none."""
    how: How = "environment"


Seen = tuple[Place, dict[str, Any] | None, str]
"""What the process of one place told, and how it ended; None: it told nothing in time."""


def look_from_each(python: Interpreter, places: Sequence[Place]) -> list[Seen]:
    """Start all, wait until each has told what it sees, let all end: they are alive at the same time."""
    text = script("one_gpu")
    with ExitStack() as stack:
        children: list[Child] = []
        for place in places:
            env = python.seeing(place.visible).env
            child = Child([python.path, "-c", text, place.how], env=env, cwd=python.cwd, hold=True)
            children.append(stack.enter_context(child))
        deadline = time.monotonic() + _LIMIT_S
        while time.monotonic() < deadline and any(child.runs() and not told(child.said()) for child in children):
            time.sleep(_LOOK_S)
        late = [child.runs() and not told(child.said()) for child in children]
        for child in children:
            child.let_go()
        for child in children:
            child.wait(0.0 if any(late) else 10.0)
    ends = [child.ended() for child in children]
    return [
        (place, next(iter(told(end.out)), None), "gives no answer" if slow else end.how)
        for place, end, slow in zip(places, ends, late, strict=True)
    ]


def check_isolation(seen: Sequence[Seen]) -> Iterator[Finding]:
    """Two lines: that they ran at once, and what each got."""
    if not seen:
        return
    answers = [(place, answer) for place, answer, _ in seen if answer is not None]
    for place, answer, how in seen:
        if answer is None:
            yield fail("parallel generation", f"{place.label}: {how}", "nothing can run there as it is")
    if len(answers) == len(seen):
        pids = [answer["pid"] for _, answer in answers]
        text = f"{len(pids)} process{'es' * (len(pids) != 1)} at the same time, PIDs {', '.join(map(str, pids))}"
        if len(set(pids)) == len(pids):
            yield ok("parallel generation", text)
        else:
            yield fail("parallel generation", text, "PIDs must differ")
    yield _assignments(answers)


def _assignments(answers: Sequence[tuple[Place, dict[str, Any]]]) -> Finding:
    name = "worker GPU assignments"
    wrong = [f"{place.label}: {why}" for place, answer in answers if (why := _wrong(place, answer))]
    if wrong and all(answer.get("devices") == 0 for _, answer in answers):
        return fail(name, "; ".join(wrong), "see torch")
    if wrong:
        return fail(name, "; ".join(wrong), "what in this Python changes CUDA_VISIBLE_DEVICES (sitecustomize, a .pth)?")
    each = "; ".join(f"{place.label}: CUDA_VISIBLE_DEVICES={place.visible or '(empty)'}" for place, _ in answers)
    real = [(place, answer) for place, answer in answers if place.uuid]
    if not real:
        return ok(name, f"{each}; only the environment was checked, no real GPU is in use")
    if any("devices" not in answer for _, answer in real):
        return warn(name, f"{each}; only the environment was checked", "with torch in this Python more is proven")
    told_uuid = all(answer.get("uuid") for _, answer in real)
    return ok(name, f"{each}; each sees one device{', the right one' if told_uuid else ''}")


def _wrong(place: Place, answer: dict[str, Any]) -> str:
    if answer.get("error"):
        return str(answer["error"])
    if answer["visible"] != place.visible:
        return f"CUDA_VISIBLE_DEVICES is {answer['visible']!r} instead of {place.visible!r}"
    if not place.uuid or "devices" not in answer:
        return ""
    if answer["devices"] != 1:
        return f"sees {plural(answer['devices'], 'device')} instead of one"
    if answer.get("uuid") and not _same(place.uuid, answer["uuid"]):
        return f"sees the GPU {answer['uuid']} instead of {place.uuid}"
    if answer.get("sum", 1024) != 1024:
        return f"adds up 1024 ones to {answer['sum']}"
    return ""


def _same(ours: str, theirs: str) -> bool:
    """torch leaves the "GPU-" away."""
    return ours.removeprefix("GPU-").lower() == theirs.removeprefix("GPU-").lower() or ours.startswith("MIG-")
