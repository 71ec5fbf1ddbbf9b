"""What kind of training it becomes: the table of strategies and backends. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .errors import DistributedError

Strategy = Literal["single", "dp", "ddp"]
STRATEGIES = ("auto", "single", "dp", "ddp")


@dataclass(frozen=True, slots=True)
class Choice:
    strategy: Strategy
    backend: str = ""
    """"" without a process group."""
    notices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def choose(asked: str, backend: str, *, world_size: int, gpus_visible: int) -> Choice:
    """The strategy for what was *asked* ("auto", "single", "dp", "ddp"), and the *backend* ("": by itself).

    Raises DistributedError for what nobody can mean: training the same model several times side by side.
    """
    if asked not in STRATEGIES:
        raise DistributedError(f"strategy {asked!r} is not known: {', '.join(STRATEGIES)}")
    if world_size == 1:
        return _alone(asked, gpus_visible)
    if asked in ("single", "dp"):
        raise DistributedError(
            f'strategy "{asked}" with {world_size} processes: each would train a model of its own; '
            'start one process, or take "ddp"'
        )
    return _together(backend, gpus_visible)


def _alone(asked: str, gpus_visible: int) -> Choice:
    many = gpus_visible > 1
    if asked == "ddp":
        words = 'strategy "ddp" with one process trains like "single": start with torchrun --nproc-per-node N'
        return Choice("single", warnings=(words,))
    if asked == "dp" and many:
        return Choice("dp", warnings=('strategy "dp" is slower than "ddp" and no longer developed in torch',))
    if asked == "dp":
        return Choice("single", warnings=(f'strategy "dp" with {gpus_visible} GPUs visible trains like "single"',))
    if asked == "auto" and many:
        words = f"{gpus_visible} GPUs are visible, 1 is used: torchrun --nproc-per-node {gpus_visible} SCRIPT uses all"
        return Choice("single", notices=(words,))
    return Choice("single")


def _together(backend: str, gpus_visible: int) -> Choice:
    if not gpus_visible and "nccl" in backend:
        return Choice("ddp", "gloo", warnings=(f'backend "{backend}" needs CUDA, which is not here: "gloo" is used',))
    return Choice("ddp", backend or ("nccl" if gpus_visible else "gloo"))
