"""Readers of the tables inside a task: env, matrix, metrics, on_oom, slurm."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from .problems import BadValueError
from .values import as_text, is_list, is_table, kind_of, shown

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

OWN_VARIABLES = frozenset({
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GPUDECK_TASK", "GPUDECK_ATTEMPT", "GPUDECK_DECK", "GPUDECK_TOKEN",
    "GPUDECK_LOG", "GPUDECK_RUN_DIR", "GPUDECK_GPU_MEM_MIB", "GPUDECK_SHARD", "GPUDECK_SHARDS",
    "GPUDECK_SNAPSHOT",
})  # fmt: skip
"""Variables that an attempt gets from gpudeck, which a file may not set."""
RUN_VARIABLE = "GPUDECK_RUN"
"""In the tasks of `gpudeck run`: which run it is, and in which boot of the box it was typed."""


def table(value: object) -> Mapping[str, object]:
    if not is_table(value):
        raise BadValueError(f"must be a table, got {kind_of(value)}: {shown(value)}")
    return value


def env(value: object) -> dict[str, str | None]:
    """Variables by name; None unsets. Written as text, or false to unset."""
    return {name: _variable(name, item) for name, item in table(value).items()}


def _variable(name: str, value: object) -> str | None:
    if not name or "=" in name:
        raise BadValueError(f"has {shown(name)}, which cannot be the name of a variable")
    refuse_own(name)
    if value is False:
        return None
    if not isinstance(value, str):
        raise BadValueError(f'must be text, or false to unset it: write "{as_text(value)}"', name)
    return value


def refuse_own(name: str) -> None:
    """Raises BadValueError for a variable that only gpudeck may set."""
    if name in OWN_VARIABLES:
        hint = ": gpus and gpu_ids say which GPUs a task gets" if name.startswith("CUDA") else ""
        raise BadValueError(f"may not set {name}, gpudeck does{hint}")


def identifiers(value: object) -> Mapping[str, object]:
    """A table whose keys can be placeholders."""
    items = table(value)
    for key in items:
        if not IDENTIFIER.fullmatch(key):
            fixed = re.sub(r"[^A-Za-z0-9_]+", "_", key).strip("_") or "x"
            fixed = f"_{fixed}" if fixed[0].isdigit() else fixed
            raise BadValueError(f'has "{key}", which cannot stand in braces: call it {fixed}')
    return items


def tables(value: object) -> Sequence[Mapping[str, object]]:
    """A list of tables."""
    if not is_list(value) or not all(map(is_table, value)):
        raise BadValueError(f"must be a list of tables, got {shown(value)}")
    return cast("Sequence[Mapping[str, object]]", value)
