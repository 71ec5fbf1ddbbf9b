"""Specs, decks and GPUs in a few words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.spec import DeckFile, DeckSettings, Policy, Resources, TaskSpec, Work

CARD_MIB = 24_000


def spec(name: str, *, entry: str = "", position: int = -1, **more: object) -> TaskSpec:
    """A task; keys of Resources and Policy may be given directly."""
    resources = {key: more.pop(key) for key in list(more) if key in Resources.__dataclass_fields__}
    policy = {key: more.pop(key) for key in list(more) if key in Policy.__dataclass_fields__}
    more.setdefault("fingerprint", f"fp-{name}")
    return TaskSpec(
        name=name,
        entry=entry or name.rstrip("0123456789"),
        position=position,
        work=Work("true"),
        resources=Resources(**resources),  # pyright: ignore[reportArgumentType]
        policy=Policy(**policy),  # pyright: ignore[reportArgumentType]
        **more,  # pyright: ignore[reportArgumentType]
    )


def deck_file(
    tasks: Iterable[TaskSpec], settings: DeckSettings | None = None, selected: Iterable[str] | None = None
) -> DeckFile:
    placed = tuple(replace(task, position=place) for place, task in enumerate(tasks))
    chosen = None if selected is None else frozenset(selected)
    return DeckFile("/tasks.toml", "tasks", settings or DeckSettings(), placed, selected=chosen)


def cards(count: int, *, slots: int | str = 1, total_mib: int | None = CARD_MIB, **more: object) -> list[Gpu]:
    return [
        Gpu(f"GPU-{index}", index, index, slots=slots, total_mib=total_mib, **more)  # pyright: ignore[reportArgumentType]
        for index in range(count)
    ]


def said(spec: Any) -> dict[str, object]:
    """What a spec says beyond its defaults."""
    hidden = ("name", "entry", "work", "fingerprint", "resources", "policy")
    given = {item.name: getattr(spec, item.name) for item in fields(spec) if item.name not in hidden}
    return {key: value for key, value in given.items() if value != type(spec).__dataclass_fields__[key].default}
