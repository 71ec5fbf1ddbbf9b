"""What a GPU's readings say, piece by piece. Pure.

Styles: plain, dim, name, task, util, deck, mine, others, unexplained, track, warn, bad.
"""

from __future__ import annotations

from ...engine.protocol.wire import GpuRow
from ..drawing.format import clean
from ..drawing.spans import Span, bar, block
from ..settings.config import Thresholds

_NOT_KNOWN = "N/A"
_MARGIN_C = 5
"""Hot: so close to the temperature at which the card slows itself down."""
_TOLD_MIB = 512
"""The driver and its contexts take a little that no process has."""


def why_missing(gpu: GpuRow, field: str) -> str:
    """In place of a value: "N/A", "no permission", or what the driver said."""
    why = clean(gpu.missing.get(field, ""))
    return _NOT_KNOWN if why in ("", "not supported") else why


def briefly_missing(gpu: GpuRow, field: str) -> str:
    """The same in six cells."""
    return "denied" if gpu.missing.get(field) == "no permission" else _NOT_KNOWN


def gib(mib: float) -> str:
    return f"{mib / 1024:.1f}" if mib < 1024 * 999.5 else f"{mib / 1024:.0f}"


def util_text(gpu: GpuRow) -> Span:
    if gpu.util_percent is None:
        return why_missing(gpu, "util_percent"), "dim"
    return f"{gpu.util_percent}%", "plain"


def memory_text(gpu: GpuRow, thresholds: Thresholds) -> Span:
    if gpu.used_mib is None:
        return why_missing(gpu, "used_mib"), "dim"
    if gpu.total_mib is None:
        return f"{gib(gpu.used_mib)} GiB", "plain"
    full = 100 * gpu.used_mib >= thresholds.memory_percent * gpu.total_mib
    return f"{gib(gpu.used_mib)} / {gib(gpu.total_mib)} GiB", "warn" if full else "plain"


def util_bar(gpu: GpuRow, width: int) -> list[Span]:
    if gpu.util_percent is None:
        return [(" " * width, "plain")]
    return bar([(gpu.util_percent / 100, "util")], width)


def memory_bar(gpu: GpuRow, width: int) -> list[Span]:
    if gpu.used_mib is None or not gpu.total_mib:
        return [(" " * width, "plain")]
    owners = _owners(gpu) or [("unexplained", gpu.used_mib)]
    return bar([(mib / gpu.total_mib, owner) for owner, mib in owners], width)


def _owners(gpu: GpuRow) -> list[tuple[str, int]]:
    """Whose how many MiB are, this deck's first; of others those that have some. Empty: not known."""
    owned = gpu.memory
    if owned is None:
        return []
    unexplained_mib = owned.unexplained_mib if owned.unexplained_mib >= _TOLD_MIB else 0
    others = (("mine", owned.mine_mib), ("others", owned.others_mib), ("unexplained", unexplained_mib))
    return [("deck", owned.deck_mib), *((owner, mib) for owner, mib in others if mib)]


def temperature(gpu: GpuRow, thresholds: Thresholds, *, limit: bool = True) -> tuple[Span, ...]:
    if gpu.temperature_c is None:
        return ((f"{why_missing(gpu, 'temperature_c')} °C", "dim"),)
    warn_c = thresholds.temperature_c if gpu.slowdown_c is None else gpu.slowdown_c - _MARGIN_C
    style = "warn" if gpu.temperature_c >= warn_c else "plain"
    if gpu.slowdown_c is None or not limit:
        return ((f"{gpu.temperature_c} °C", style),)
    return (str(gpu.temperature_c), style), (f"/{gpu.slowdown_c} °C", "dim")


def power(gpu: GpuRow, *, limit: bool = True) -> tuple[Span, ...]:
    if gpu.power_w is None:
        return ((f"{why_missing(gpu, 'power_w')} W", "dim"),)
    if gpu.power_limit_w is None or not limit:
        return ((f"{gpu.power_w:.0f} W", "plain"),)
    return (f"{gpu.power_w:.0f}", "plain"), (f"/{gpu.power_limit_w:.0f} W", "dim")


def clock(gpu: GpuRow, label: str, field: str) -> tuple[Span, ...]:
    """Empty where nothing is known, not even why."""
    now: int | None = getattr(gpu, f"{field}_mhz")
    most: int | None = getattr(gpu, f"{field}_max_mhz")
    if now is None:
        return ((f"{label} {why_missing(gpu, f'{field}_mhz')}", "dim"),) if f"{field}_mhz" in gpu.missing else ()
    limit = "" if most is None else f"/{most}"
    return (f"{label} ", "dim"), (str(now), "plain"), (f"{limit} MHz", "dim")


def fan(gpu: GpuRow) -> tuple[Span, ...]:
    if gpu.fan_percent is None:
        return ((f"fan {why_missing(gpu, 'fan_percent')}", "dim"),) if "fan_percent" in gpu.missing else ()
    return (("fan ", "dim"), (f"{gpu.fan_percent}%", "plain"))


_GRAVE = frozenset({"hw thermal", "thermal", "power brake", "hw slowdown"})


def throttle(gpu: GpuRow) -> tuple[Span, ...]:
    """ "slowed: thermal, power"; a card at its power limit is at work, one that is too hot is in trouble."""
    if not gpu.throttle:
        return ()
    grave = not _GRAVE.isdisjoint(gpu.throttle)
    return ((f"slowed: {', '.join(map(clean, gpu.throttle))}", "warn" if grave else "dim"),)


def split(gpu: GpuRow) -> tuple[Span, ...]:
    """Whose the memory is, where not all of it is this deck's."""
    owners = _owners(gpu)
    if len(owners) < 2:
        return ()
    found: list[Span] = []
    for owner, mib in owners:
        if mib:
            found += [(block(owner), owner), (f" {owner} {gib(mib)}  ", "plain")]
    return (*found[:-1], (found[-1][0].rstrip() + " GiB", "plain"))
