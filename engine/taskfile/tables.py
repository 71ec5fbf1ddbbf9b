"""Readers of metrics and watch, and the hint for task keys that stand below their headers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Literal, cast

from ..core.spec import Metric, Watch
from . import readers
from .lines import Path
from .problems import BadValueError, did_you_mean
from .schema import DISTRIBUTED, METRIC, SLURM, TASK, WATCH, Table
from .values import as_text, is_list, is_table

_LISTS = {
    "command", "env_required", "needs", "after", "gpu_ids", "retry_on", "on_oom", "success_codes", "outputs", "tags",
    "resume_command", "fingerprint_ignore", "fingerprint_files",
}  # fmt: skip
_SWALLOWING: Mapping[str, Table] = {
    "env": {}, "matrix": {}, "watch": WATCH, "slurm": SLURM, "metrics": {}, "distributed": DISTRIBUTED,
}  # fmt: skip
_HOLDERS = frozenset((*_SWALLOWING, "on_oom"))


def read_table(value: object, table: Table) -> dict[str, object]:
    """Every key read. Raises BadValueError inside the first key that is wrong."""
    found: dict[str, object] = {}
    for key, item in readers.table(value).items():
        if key not in table:
            hint = did_you_mean(key, list(table)) or "it knows " + ", ".join(table)
            raise BadValueError(f'has the unknown key "{key}": {hint}')
        try:
            found[key] = table[key].kind.read(item)
        except BadValueError as error:
            raise BadValueError(error.words, key, *error.inside) from None
    return found


def metrics(value: object, cwd: str) -> tuple[Metric, ...]:
    return tuple(_metric(name, item, cwd) for name, item in readers.table(value).items())


def _metric(name: str, value: object, cwd: str) -> Metric:
    if isinstance(value, str):
        raise BadValueError('needs to be told where it is found: { regex = \'…\' }, or { file = "…", key = "…" }', name)
    try:
        said = cast("dict[str, str]", read_table(value, METRIC))
    except BadValueError as error:
        raise BadValueError(error.words, name, *error.inside) from None
    if ("regex" in said) == ("file" in said):
        raise BadValueError("needs either regex, or file and key", name)
    if ("file" in said) != ("key" in said):
        raise BadValueError("needs key together with file", name)
    best = cast("Literal['last']", said.get("best", "last"))
    file = os.path.join(cwd, said["file"]) if "file" in said else ""
    return Metric(name, said.get("regex", ""), file, said.get("key", ""), best)


def watch(value: object) -> Watch | None:
    said = read_table(value, WATCH)
    if not said:
        return None
    if said.get("action") == "succeed" and "pattern" not in said:
        raise BadValueError('= "succeed" needs pattern: only a line can say that the work is done', "action")
    return Watch(
        silent_s=cast("float", said.get("silent")),
        idle_gpu_s=cast("float", said.get("idle_gpu")),
        log_size_mib=cast("int", said.get("log_size")),
        pattern=cast("str", said.get("pattern", "")),
        action=cast("Literal['notify']", said.get("action", "notify")),
    )


def sees(watch: Watch) -> bool:
    """Whether there is a sign that it looks for."""
    return bool(watch.silent_s or watch.idle_gpu_s or watch.log_size_mib or watch.pattern)


def swallowed(entry: Mapping[str, object]) -> Iterator[Path]:
    """Paths of keys in a task's tables that look like the task's own: `[task.env]` and then `gpus = 2`."""
    if _HOLDERS.isdisjoint(entry):
        return
    yield from _swallowed_by_lists(entry)
    for name, known in _SWALLOWING.items():
        table = entry.get(name)
        if not is_table(table):
            continue
        for key, value in table.items():
            if key in TASK and key not in known and not _meant(name, key, value):
                yield (name, key)
            if name == "metrics" and is_table(value):
                yield from ((name, key, inner) for inner in value if inner in TASK)


def _swallowed_by_lists(entry: Mapping[str, object]) -> Iterator[Path]:
    """In `[[task.matrix.include]]` a key of that name may be meant: then the task says {key} somewhere."""
    matrix = entry.get("matrix")
    for at, rung in _listed(entry, "on_oom"):
        env = rung.get("env")
        yield from (("on_oom", at, "env", key) for key in (env if is_table(env) else ()) if key in TASK)
    for at, row in _listed(matrix if is_table(matrix) else {}, "include"):
        said = [key for key in row if key in TASK and is_table(matrix) and key not in matrix]
        yield from (("matrix", "include", at, key) for key in said if f"{{{key}}}" not in as_text(entry))


def _listed(table: Mapping[str, object], key: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    found = table.get(key)
    return ((at, item) for at, item in enumerate(found if is_list(found) else ()) if is_table(item))


def _meant(table: str, key: str, value: object) -> bool:
    """A matrix may have an axis called "gpus", a metric may be called "retries"."""
    if table == "matrix":
        return is_list(value) and key not in _LISTS
    return table == "metrics" and is_table(value)
