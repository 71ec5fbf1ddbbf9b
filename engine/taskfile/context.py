"""What all entries of a file share while they are expanded."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar, cast

from .card_profiles import CardProfile
from .check import Checker
from .interpreter import Python
from .layers import Layers, expanded_with
from .schema import TASK

T = TypeVar("T", bound=Hashable)
_SIMPLE = (str, int, bool, float)


@dataclass(slots=True)
class Context:
    """The file around its entries."""

    checker: Checker
    layers: Layers
    environ: Mapping[str, str]
    constants: dict[str, object]
    """[vars] and {deck}."""
    log_dir: str
    python: Python
    barrier: Literal["succeeded", "ended"]
    gpu_count: int | None
    fixed_shards: Mapping[str, int]
    on_slurm: bool = False
    """Tasks are jobs of a cluster."""
    profiles: tuple[CardProfile, ...] = ()
    """[[gpu_profile]], the largest cards first."""
    placeholders: set[str] = field(default_factory=set[str])
    """Names that [vars] or the matrix of some entry has."""
    resolved_shards: dict[str, int] = field(default_factory=dict[str, int])
    """What "gpus" was resolved to, by entry."""
    later: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])
    """Line, place and words for everything that this version cannot do."""
    disabled: dict[str, int] = field(default_factory=dict[str, int])
    """Names of tasks with enabled = false and their lines."""
    disabled_rounds: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Group and round of these."""
    characters: int = 0
    """In the commands and variables that were made for single tasks."""
    sharded: set[str] = field(default_factory=set[str])
    """What tasks with shards are called without their shard."""
    plain: object = None
    """The scopes of entries without matrix and shards, made once."""
    shapes: dict[object, object] = field(default_factory=dict[object, object])
    """Resources and Policies by the values that they are made of."""
    _shared: dict[Hashable, object] = field(default_factory=dict[Hashable, object])
    _read: dict[Hashable, object] = field(default_factory=dict[Hashable, object])

    def expanded_with(self, changes: Mapping[str, object]) -> Mapping[str, object]:
        """[vars] with other values for some of them. Raises BadValueError."""
        return expanded_with(changes, self.layers.vars_as_written, self.layers.vars, self.environ)

    def share(self, value: T) -> T:
        """An equal value that is kept already, else this one."""
        return cast("T", self._shared.setdefault((value.__class__, value), value))

    def read(self, key: str, value: object) -> object:
        """What a task's key means by *value*. Raises BadValueError."""
        if value.__class__ not in _SIMPLE:
            return TASK[key].kind.read(value)
        known = (key, value.__class__, value)
        if known not in self._read:
            self._read[known] = TASK[key].kind.read(value)
        return self._read[known]
