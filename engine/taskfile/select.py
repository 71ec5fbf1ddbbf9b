"""--only, --exclude, --limit and --with-needs: which tasks a run is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..core.selector import Facts, Subject, meant, parse_selector
from ..core.spec import DeckSettings, TaskSpec
from ..errors import UsageError
from .graph import Index
from .options import RunOptions

Look = Callable[[DeckSettings, Sequence[TaskSpec]], Sequence[Subject]]
"""All tasks of a file as they stand now, in their order."""


def select(
    settings: DeckSettings, tasks: Sequence[TaskSpec], options: RunOptions, look: Look | None = None
) -> frozenset[str] | None:
    """The names that the options leave in; None: all. Raises UsageError where a selector matches nothing."""
    if not options.only and not options.exclude and options.limit is None:
        return None
    selectors = [parse_selector(text) for text in (*options.only, *options.exclude)]
    if look is not None and any(selector.needs_history for selector in selectors):
        subjects = look(settings, tasks)
    else:
        subjects = [Facts(task.name, task.tags, task.params) for task in tasks]
    chosen: Iterable[TaskSpec] = tasks
    if options.only:
        chosen = _matching("--only", options.only, tasks, subjects, history=look is not None)
    if options.exclude:
        out = {task.name for task in _matching("--exclude", options.exclude, tasks, subjects, history=look is not None)}
        chosen = [task for task in chosen if task.name not in out]
    if options.limit is not None:
        chosen = _first(chosen, options.limit)
    names = {task.name for task in chosen}
    if not names:
        raise UsageError("--exclude leaves no task")
    also = _with_needs({task.name for task in tasks if task.name in options.also}, tasks, after=False)
    return frozenset(also | (_with_needs(names, tasks) if options.with_needs else names))


def _matching(
    option: str, texts: Sequence[str], tasks: Sequence[TaskSpec], subjects: Sequence[Subject], *, history: bool
) -> list[TaskSpec]:
    """Tasks that at least one selector matches, in file order."""
    hits: set[str] = set()
    for text in texts:
        selector = parse_selector(text)
        if selector.needs_history and not history:
            raise UsageError(f"{option} {text}: states, reasons and GPUs are known only of a deck that has run")
        found = {subject.name for subject in subjects if selector.matches(subject)}
        if not found:
            raise UsageError(f"{option} {text}: no task matches{_hint(text, tasks)}")
        hits |= found
    return [task for task in tasks if task.name in hits]


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
