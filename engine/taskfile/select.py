"""--only, --exclude, --limit and --with-needs: which tasks a run is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..core.meant import meant
from ..core.selector import Facts, Selector, Subject, parse_selector
from ..core.spec import TaskSpec
from ..errors import UsageError
from .index import Index
from .options import RunOptions

Look = Callable[[TaskSpec], Subject]
"""A task as it stands now."""


def select(tasks: Sequence[TaskSpec], options: RunOptions, look: Look | None = None) -> frozenset[str] | None:
    """The names that the options leave in; None: all. Raises UsageError where a selector matches nothing."""
    if not options.only and not options.exclude and options.limit is None:
        return None
    see = look or _without_history
    chosen: Iterable[TaskSpec] = tasks
    if options.only:
        chosen = _matching("--only", options.only, tasks, see, history=look is not None)
    if options.exclude:
        out = {task.name for task in _matching("--exclude", options.exclude, tasks, see, history=look is not None)}
        chosen = [task for task in chosen if task.name not in out]
    if options.limit is not None:
        chosen = _first(chosen, options.limit)
    names = {task.name for task in chosen}
    if not names:
        raise UsageError("--exclude leaves no task")
    return frozenset(_with_needs(names, tasks) if options.with_needs else names)


def _without_history(task: TaskSpec) -> Subject:
    return Facts(task.name, task.tags, task.params)


def _matching(
    option: str, texts: Sequence[str], tasks: Sequence[TaskSpec], see: Look, *, history: bool
) -> list[TaskSpec]:
    """Tasks that at least one selector matches, in file order."""
    hits: set[str] = set()
    for text in texts:
        selector = parse_selector(text)
        if selector.needs_history and not history:
            raise UsageError(f"{option} {text}: states, reasons and GPUs are known only of a deck that has run")
        found = _hits(selector, tasks, see)
        if not found:
            raise UsageError(f"{option} {text}: no task matches{_hint(text, tasks)}")
        hits |= found
    return [task for task in tasks if task.name in hits]


def _hits(selector: Selector, tasks: Sequence[TaskSpec], see: Look) -> set[str]:
    return {task.name for task in tasks if selector.matches(see(task))}


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


def _with_needs(names: set[str], tasks: Sequence[TaskSpec]) -> set[str]:
    """*names* and all that these need or come after, and what those do in turn."""
    index = Index([task.name for task in tasks])
    done: set[str] = set()
    chosen, open_tasks = set(names), [task for task in tasks if task.name in names]
    while open_tasks:
        task = open_tasks.pop()
        for pattern in {*task.needs, *task.after} - done:
            done.add(pattern)
            for position in index.find(pattern):
                if tasks[position].name not in chosen:
                    chosen.add(tasks[position].name)
                    open_tasks.append(tasks[position])
    return chosen
