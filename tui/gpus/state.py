"""Which card a GPU is, who is on it, and what is the matter with it, piece by piece. Pure."""

from __future__ import annotations

from ...engine.protocol.wire import GpuRow
from ...engine.protocol.words import silent_text
from ..drawing.format import clean, cut_middle
from ..drawing.spans import Span

_BADGES = {
    "drained": ("DRAINED", "warn"), "foreign": ("IN USE", "others"), "claimed": ("IN USE", "others"),
    "quarantined": ("QUARANTINED", "bad"), "quiet": ("RESTS", "dim"), "joined": ("SHARED", "others"),
    "leaving": ("LEAVING", "warn"),
}  # fmt: skip


def badge(gpu: GpuRow, *, told: bool = True) -> tuple[Span, ...]:
    """One word where something is the matter. *told*: there is an engine that tells how the GPU fares."""
    if gpu.lost:
        return (("LOST", "bad"),)
    if not told:
        return (("STALE", "dim"),)
    if gpu.stale_since is not None:
        return (("STALE", "bad"),)
    if gpu.note_kind in _BADGES:
        return (_BADGES[gpu.note_kind],)
    return (("TAKEN", "warn"),) if gpu.mark == "take" else ()


def note(gpu: GpuRow) -> tuple[Span, ...]:
    """The same in a few words more."""
    if gpu.lost:
        return ((f"does not answer: {clean(gpu.lost)}", "bad"),)
    if gpu.stale_since is not None:
        return ((silent_text(gpu.stale_since), "bad"),)
    said = [clean(line) for line in gpu.health]
    if gpu.note and gpu.note_kind != "drained":
        said.insert(0, clean(gpu.note))
    return (("; ".join(said), "bad" if gpu.health else "others"),) if said else ()


def name(gpu: GpuRow) -> str:
    """ "A40" of "NVIDIA A40"; a simulated one is marked by its tag."""
    return clean(gpu.name).removeprefix("NVIDIA ").removeprefix("SIM ") or "GPU"


def tags(gpu: GpuRow) -> tuple[Span, ...]:
    found = [word for word, there in (("SIM", gpu.simulated), ("MIG", gpu.mig)) if there and word not in name(gpu)]
    return ((" ".join(found), "warn" if gpu.simulated else "dim"),) if found else ()


def slots(gpu: GpuRow, *, numbers: bool = True, most: int = 1000) -> list[Span]:
    """Who is on which slot. Names have at most *most* cells: names of a sweep differ at their ends."""
    held = gpu.slot_tasks or gpu.tasks
    if not any(held):
        return [] if gpu.note_kind else [("free" if gpu.slots <= 1 else f"{gpu.slots} slots free", "dim")]
    spans: list[Span] = []
    for place, task in enumerate(held, 1):
        if spans:
            spans.append(("  ", "plain"))
        if numbers and len(held) > 1:
            spans.append((f"{place} ", "dim"))
        spans.append((cut_middle(clean(task), most), "task") if task else ("free", "dim"))
    return spans
