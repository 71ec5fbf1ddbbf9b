"""From an action on the deck or on a GPU to what the engine is asked, and what is confirmed first. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...engine.protocol.wire import GpuRow
from .actions import BY_ID
from .questions import Doing, Option, Question, Request

_KEEP = "e"
_KEEP_FLAG = "--keep"
"""Of `gpudeck apply`, which its lines name."""


def pause(paused: str, halted: str) -> Doing:
    """Unpausing needs no question; what a halt has left may be many tasks. *halted*: the task that failed."""
    if paused:
        return Request("unpause", {}, "the deck goes on")
    if halted:
        return _unhalt(halted)

    def then(answer: str) -> Request | None:
        return Request("pause", {}, "paused: nothing more starts") if answer == "pause" else None

    answers = (Option("no", "no, go on"), Option("pause", "pause", "pP"))
    return Question("Pause the deck?", ("Nothing more starts; what runs goes on.",), answers, then)


def _unhalt(failed: str) -> Question:
    def then(answer: str) -> Request | None:
        return Request("unpause", {}, "the deck goes on") if answer == "on" else None

    answers = (Option("no", "no, nothing starts"), Option("on", "go on", "pP"))
    return Question(
        "Go on with the halted run?", (f"{failed} failed; what it has kept from starting starts.",), answers, then
    )


_BY = {"by": "Q on the screen"}


def stop(active: int) -> Doing:
    """Enter stops neither."""

    def then(answer: str) -> Request | None:
        match answer:
            case "engine":
                return Request("stop", _BY, "the engine ends; its tasks go on")
            case "tasks":
                return Request("stop", {"tasks": True, **_BY}, "the tasks are asked to end")
            case _:
                return None

    running = f"{active} running task" + ("" if active == 1 else "s")
    answers = [Option("no", "stop nothing"), Option("engine", f"the engine only: {running} go on", "e")]
    if active:
        answers.append(Option("tasks", f"the engine and {running}, gracefully", "t", grave=True))
    hint = f"{BY_ID['leave'].shown_key} leaves this screen and stops nothing."
    return Question("Stop?", (hint,), tuple(answers), then)


def apply(lines: Sequence[str], digest: str, *, finished: bool, running: bool) -> Question:
    """What has changed in the task file, as `gpudeck apply --dry-run` prints it. *digest*: of that plan, which alone is
    applied. *finished*, *running*: there are changed tasks of that kind."""

    def then(answer: str) -> Request | None:
        match answer:
            case "apply":
                return Request("apply", {"digest": digest}, "applied")
            case "keep":
                return Request("apply", {"digest": digest, "finished": "keep"}, "applied, results kept")
            case "restart":
                return Request("apply", {"digest": digest, "running": "restart"}, "applied, what runs starts anew")
            case _:
                return None

    shown = tuple(line.replace(_KEEP_FLAG, f"[{_KEEP}]") for line in lines)
    answers = [Option("no", "not now"), Option("apply", "apply", "y")]
    if finished:
        answers.append(Option("keep", "apply, keep the results of what has finished", _KEEP))
    if running:
        answers.append(Option("restart", "apply, stop what runs and start it anew", "r", grave=True))
    return Question("Apply the changed task file?", shown, tuple(answers), then)


def drain(gpu: GpuRow) -> Doing:
    """Or enable again."""
    verb = "enable" if gpu.mark == "drain" else "drain"
    done = f"GPU {gpu.index}: " + ("tasks start on it again" if verb == "enable" else "nothing more starts on it")
    return Request("gpu", {"verb": verb, "gpus": [gpu.uuid]}, done)


def take(gpu: GpuRow) -> Doing:
    """Asks: somebody else may be on it. What is taken is given back without a question."""
    if gpu.mark == "take":
        return Request(
            "gpu", {"verb": "enable", "gpus": [gpu.uuid]}, f"GPU {gpu.index}: others on it are respected again"
        )

    def then(answer: str) -> Request | None:
        return (
            Request("gpu", {"verb": "take", "gpus": [gpu.uuid]}, f"GPU {gpu.index} taken") if answer == "take" else None
        )

    answers = (Option("no", "no"), Option("take", "use it although others are on it", "t", grave=True))
    return Question(f"Take GPU {gpu.index}?", (gpu.note or "nobody else is on it now",), answers, then)
