"""Who is told: URLs with their variables filled in, and what is wrong with them. Names show no more than a kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from ..core.spec import Command, Notify
from ..taskfile.placeholders import Slot, parse

MISSING = "[notify] urls: apprise is not installed, nothing is sent to them: pip install apprise"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+]{0,30}):/{1,2}")


@dataclass(frozen=True, slots=True, repr=False)
class Targets:
    """Holds secrets: never shown."""

    urls: tuple[tuple[str, str], ...]
    """Each with the name that messages call it by: "URL 2 (slack)"."""
    command: Command | None
    problems: tuple[str, ...] = ()
    """A line for each URL that cannot be used."""


def resolve(notify: Notify, values: Mapping[str, str], environ: Mapping[str, str]) -> Targets:
    """Fill in {env.NAME} and *values* ([vars] and {deck}). What cannot be filled in is left out and told."""
    urls: list[tuple[str, str]] = []
    problems: list[str] = []
    for number, written in enumerate(notify.urls, 1):
        missing = [
            slot.name for slot in parse(written) if isinstance(slot, Slot) and _value(slot, values, environ) is None
        ]
        if missing:
            names = ", ".join(f"{{{name}}}" for name in missing)
            problems.append(f"[notify] urls: number {number} has {names}, which is not set: nothing is sent to it")
            continue
        url = "".join(
            _value(part, values, environ) or "" if isinstance(part, Slot) else part for part in parse(written)
        )
        found = _SCHEME.match(url)
        if found is None:
            problems.append(f"[notify] urls: number {number} is no URL (kind://…): nothing is sent to it")
        else:
            urls.append((f"URL {number} ({found[1].lower()})", url))
    return Targets(tuple(urls), notify.command, tuple(problems))


def problems_of(notify: Notify, values: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """What will keep messages from being sent, a line each."""
    missing = [MISSING] if notify.urls and find_spec("apprise") is None else []
    return [*missing, *resolve(notify, values, environ).problems]


def _value(slot: Slot, values: Mapping[str, str], environ: Mapping[str, str]) -> str | None:
    name = slot.name
    return environ.get(name.removeprefix("env.")) if name.startswith("env.") else values.get(name)
