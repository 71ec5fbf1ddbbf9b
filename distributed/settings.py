"""What a script leaves open: the variables GPUDECK_DIST_*, which `[distributed]` in a task file sets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .errors import DistributedError

MixedPrecision = Literal["off", "bf16", "fp16"]
_MIXED: Mapping[str, MixedPrecision] = {
    "off": "off", "no": "off", "false": "off", "fp32": "off", "float32": "off",
    "bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16", "float16": "fp16",
}  # fmt: skip
_YES = ("1", "true", "yes", "on")
_NO = ("0", "false", "no", "off", "")


@dataclass(frozen=True, slots=True)
class Settings:
    strategy: str = "auto"
    backend: str = ""
    timeout_s: float = 1800.0
    find_unused_parameters: bool = False
    mixed_precision: MixedPrecision = "off"


def settings_of(environ: Mapping[str, str]) -> Settings:
    """Raises DistributedError that names the variable whose value is none."""
    backend = environ.get("GPUDECK_DIST_BACKEND", "").strip().lower()
    return Settings(
        strategy=environ.get("GPUDECK_DIST_STRATEGY", "").strip().lower() or "auto",
        backend="" if backend == "auto" else backend,
        timeout_s=_seconds(environ),
        find_unused_parameters=_flag(environ, "GPUDECK_DIST_FIND_UNUSED_PARAMETERS"),
        mixed_precision=mixed_precision(environ.get("GPUDECK_DIST_MIXED_PRECISION", "off")),
    )


def mixed_precision(text: str) -> MixedPrecision:
    """ "off", "bf16" or "fp16", also by torch's names."""
    found = _MIXED.get(text.strip().lower() or "off")
    if found is None:
        raise DistributedError(f"mixed precision {text!r} is not known: off, bf16, fp16")
    return found


def _seconds(environ: Mapping[str, str]) -> float:
    text = environ.get("GPUDECK_DIST_TIMEOUT", "") or "1800"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise DistributedError(f"GPUDECK_DIST_TIMEOUT={text!r} is not a number of seconds above 0")
    return seconds


def _flag(environ: Mapping[str, str], name: str) -> bool:
    text = environ.get(name, "").strip().lower()
    if text not in _YES + _NO:
        raise DistributedError(f"{name}={text!r} is neither true nor false")
    return text in _YES


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
