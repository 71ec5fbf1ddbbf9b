"""What a start adds to a task file: the command line's run options, and what the machine tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Run options as given on the command line; None: not given."""

    set: Mapping[str, str] = field(default_factory=dict[str, str])
    """--set K=V: a TOML value, else text."""
    profile: str | None = None
    name: str | None = None
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    with_needs: bool = False
    limit: int | None = None
    """The first so many tasks of each entry."""
    also: tuple[str, ...] = ()
    """Never typed: names of tasks that were taken in since, beside what the other words select."""
    retried: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """By task, what `retry --set` has given since: values of variables, as typed."""
    gpus: str | None = None
    slots_per_gpu: str | None = None
    log_dir: str | None = None
    """Relative to the caller's folder, not the file's."""
    skip_existing: bool | None = None
    halt: str | None = None
    fail_fast: bool = False
    backend: str | None = None


@dataclass(frozen=True, slots=True)
class Box:
    """What expansion needs to know about the machine."""

    gpu_count: int | None = None
    """GPUs that the deck may use, for `shards = "gpus"`; None: not known yet (1 shard, provisional)."""
    cores: int = 1
    fixed_shards: Mapping[str, int] = field(default_factory=dict[str, int])
    """By entry, what an earlier expansion of this deck resolved "gpus" to."""
