"""--only, --exclude, --limit and --with-needs: which tasks a run is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..core.selector import Selector, Subject, meant, parse_selector
from ..core.spec import DeckFile, DeckSettings, TaskSpec
from ..errors import UsageError
from .graph import Index
from .options import RunOptions
from .problems import did_you_mean

Look = Callable[[DeckSettings, Sequence[TaskSpec]], Sequence[Subject]]
"""All tasks of a file as they stand now, in their order."""


def task_named(file: DeckFile, name: str, option: str = "") -> TaskSpec:
    """*option*: by which the user named it, "--like ". Raises UsageError where there is none."""
    spec = next((spec for spec in file.tasks if spec.name == name), None)
    if spec is None:
        hint = did_you_mean(name, [spec.name for spec in file.tasks[:2000]])
        raise UsageError(f"{option}{name}: there is no such task" + (f": {hint}" if hint else ""))
    return spec


def select(
    settings: DeckSettings, tasks: Sequence[TaskSpec], options: RunOptions, look: Look | None = None
) -> frozenset[str] | None:
    """The names that the options leave in; None: all. Raises UsageError where a selector matches nothing."""
    if not options.only and not options.exclude and options.limit is None:
        return None
    names = {task.name for task in tasks}
    wanted = [
        *([("--only", options.only)] if options.only else []),
        *(("--exclude", (each,)) for each in options.exclude),
    ]
    selectors = [(option, parse_selector(texts, names)) for option, texts in wanted]
    if look is not None and any(selector.needs_history for _, selector in selectors):
        subjects = look(settings, tasks)
    else:
        subjects = [Subject(task.name, task.tags, task.params, task.entry, task.group, task.round) for task in tasks]
    out: set[str] = set()
    chosen: Iterable[TaskSpec] = tasks
    for option, selector in selectors:
        hits = _matching(option, selector, tasks, subjects, history=look is not None)
        if option == "--only":
            chosen = [task for task in tasks if task.name in hits]
        else:
            out |= hits
    chosen = [task for task in chosen if task.name not in out]
    if options.limit is not None:
        chosen = _first(chosen, options.limit)
    left = {task.name for task in chosen}
    if not left:
        raise UsageError("--exclude leaves no task")
    also = _with_needs({task.name for task in tasks if task.name in options.also}, tasks, after=False)
    return frozenset(also | (_with_needs(left, tasks) if options.with_needs else left))


def _matching(
    option: str, selector: Selector, tasks: Sequence[TaskSpec], subjects: Sequence[Subject], *, history: bool
) -> set[str]:
    """Names of the tasks that a selector means."""
    if selector.needs_history and not history:
        raise UsageError(f"{option} {selector.text}: states, reasons and GPUs are known only of a deck that has run")
    for term in selector.conditions:
        if not term.needs_history and not any(map(term.is_in, subjects)):
            raise UsageError(f"{option} {term.text}: no task matches{_hint(term.text, tasks)}")
    hits = {subject.name for subject in subjects if selector.matches(subject)}
    if not hits:
        raise UsageError(f"{option} {selector.text}: no task matches")
    return hits


def _hint(text: str, tasks: Sequence[TaskSpec]) -> str:
    near = meant(text, tasks)
    return f": did you mean {near}?" if near else ""


def _first(tasks: Iterable[TaskSpec], limit: int) -> list[TaskSpec]:
    seen: dict[str, int] = {}
    kept: list[TaskSpec] = []
    for task in tasks:
        seen[task.entry] = seen.get(task.entry, 0) + 1
        if seen[task.entry] <= limit:
            kept.append(task)
    return kept


def _with_needs(names: set[str], tasks: Sequence[TaskSpec], *, after: bool = True) -> set[str]:
    """*names* and all that these need or, with *after*, come after, and what those do in turn."""
    if not names:
        return names
    index = Index([task.name for task in tasks])
    done: set[str] = set()
    chosen, open_tasks = set(names), [task for task in tasks if task.name in names]
    while open_tasks:
        task = open_tasks.pop()
        for pattern in {*task.needs, *(task.after if after else ())} - done:
            done.add(pattern)
            for position in index.find(pattern):
                if tasks[position].name not in chosen:
                    chosen.add(tasks[position].name)
                    open_tasks.append(tasks[position])
    return chosen
