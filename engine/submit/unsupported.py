"""What a deck asks for and jobs that only wait for each other do not do, a line for each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ..core.spec import DeckSettings, TaskSpec, is_glob
from ..text import names_text

_Says = Callable[[TaskSpec], bool]

_OF_TASKS: tuple[tuple[str, _Says, str], ...] = (
    ("retries", lambda spec: spec.policy.retries > 0, "what fails stays failed; `gpudeck submit` writes it anew"),
    ("on_oom", lambda spec: bool(spec.ladder), "an out-of-memory end is not tried with other values"),
    ("resume_command", lambda spec: spec.resume is not None, "jobs begin anew with command"),
    ("watch", lambda spec: spec.extras.watch is not None, "nobody watches the output"),
    ("metrics", lambda spec: bool(spec.extras.metrics), "nobody reads them: `gpudeck table` has no values"),
    ("outputs", lambda spec: bool(spec.outputs), "missing after exit 0 they keep nothing from starting"),
    (
        "success_codes",
        lambda spec: spec.policy.success_codes != frozenset({0}),
        "what needs these tasks starts after exit 0 alone",
    ),
    ("priority", lambda spec: spec.priority != 0, "jobs have the priority that Slurm gives them"),
    (
        "timeout",
        lambda spec: spec.policy.timeout_s is not None and "time" in dict(spec.extras.slurm),
        "slurm.time alone ends jobs",
    ),
    (
        "needs, after",
        lambda spec: any(is_glob(pattern) for pattern in (*spec.needs, *spec.after)),
        "globs mean the tasks of this moment",
    ),
)


def not_expressed(settings: DeckSettings, tasks: Sequence[TaskSpec], *, limited: Collection[str]) -> list[str]:
    """A line for each key that changes nothing here. *tasks*: those that are written; *limited*: entries of which an
    array holds max_parallel."""
    lines = [
        f"{key} ({_who(tasks, chosen)}): {words}"
        for key, says, words in _OF_TASKS
        if (chosen := [spec for spec in tasks if says(spec)])
    ]
    free = [spec for spec in tasks if spec.resources.max_parallel is not None and spec.entry not in limited]
    if free:
        lines.append(
            f"max_parallel ({_who(tasks, free)}): Slurm runs as many as it likes; `slurm.array = true` holds it for"
            " tasks that wait for the same"
        )
    said = {
        "halt": (settings.halt is not None, "failures stop only what needs them; `scancel` stops the rest"),
        "snapshot": (settings.snapshot, "jobs run the code as it is when they begin"),
        "notify": (bool(settings.notify), 'nobody is told; `slurm.extra = ["--mail-type=END,FAIL"]` asks Slurm to'),
        "order": (settings.order != "file", "Slurm decides what begins first"),
    }
    return [*lines, *(f"{key}: {words}" for key, (there, words) in said.items() if there)]


def _who(tasks: Sequence[TaskSpec], chosen: Sequence[TaskSpec]) -> str:
    if len(chosen) == len(tasks):
        return "all tasks" if len(tasks) > 1 else chosen[0].name
    entries = list(dict.fromkeys(spec.entry for spec in chosen))
    return names_text(entries, 3)
