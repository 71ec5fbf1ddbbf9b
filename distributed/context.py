"""Which process this is and how it trains, known to all parts; without torch."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .errors import DistributedError, DistributedWarning
from .place import Launcher, place_of
from .settings import MixedPrecision
from .strategy import Strategy

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Context:
    """What `init()` came to. As a context manager it calls `finish()` at its end."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    device: torch.device
    """The GPU of this process, else the CPU."""
    strategy: Strategy
    backend: str
    """ "" without a process group."""
    launcher: Launcher
    find_unused_parameters: bool = False
    mixed_precision: MixedPrecision = "off"
    gpus_visible: int = 0

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, the one that prints and saves."""
        return self.rank == 0

    @property
    def replicas(self) -> int:
        """How many copies of the model see a batch at the same time."""
        return self.gpus_visible if self.strategy == "dp" else self.world_size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from .session import finish

        finish()


_now: Context | None = None


def set_current(context: Context | None) -> None:
    global _now
    _now = context


def active() -> Context | None:
    """What `init()` came to; None before it and after `finish()`."""
    return _now


def current() -> Context:
    """The same; alone, a script need not call `init()`. Raises DistributedError where it has to and did not."""
    if _now is not None:
        return _now
    place = place_of(os.environ, sys.argv)
    if place.world_size > 1:
        raise DistributedError(f"call init() first: this is rank {place.rank} of {place.world_size} processes")
    from .session import init

    return init()


def is_main() -> bool:
    """Whether this process is rank 0. Needs no `init()`."""
    return (_now.rank if _now is not None else place_of(os.environ, sys.argv).rank) == 0


def notice(text: str) -> None:
    """A line on standard error, from rank 0 alone."""
    if is_main():
        print(f"gpudeck: {text}", file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """A DistributedWarning from rank 0 alone; it names the line of the script that called the library."""
    if is_main():
        warnings.warn(text, DistributedWarning, stacklevel=_depth())


def _depth() -> int:
    """How many frames up the first one outside of this package and of torch is."""
    depth, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("gpudeck", "torch"):
        depth, frame = depth + 1, frame.f_back
    return depth
