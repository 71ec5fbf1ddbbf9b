"""Pieces of HTML. Whatever comes from outside goes through `text`."""

from __future__ import annotations

import time
from html import escape

from ..headless.text import printable

DASH = "–"
STATE_SIGNS = {
    "succeeded": "✓", "cached": "↺", "failed": "✗", "running": "▶", "starting": "▶", "stopping": "■", "closing": "■",
    "blocked": "⊘", "cancelled": "∅", "unknown": "?",
}  # fmt: skip
"""Colour is not the only sign of a state."""


def text(raw: str, most: int = 2000) -> str:
    """As it may stand in an element or in quotes: one line, controls shown as escapes."""
    shown = printable(raw[:most]) + ("…" if len(raw) > most else "")
    return escape(shown, quote=True)


def badge(state: str, flags: tuple[str, ...] = ()) -> str:
    sign = STATE_SIGNS.get(state, "·")
    more = "".join(f' <span class="flag">{text(flag)}</span>' for flag in flags)
    return f'<span class="state {text(state)}"><span aria-hidden="true">{sign}</span> {text(state)}</span>{more}'


def cell(shown: str, value: float | str | None = None, kind: str = "") -> str:
    """*shown* is HTML already; *value* is what it is sorted by; *kind* its class: n number, r reason."""
    kind = f' class="{kind}"' if kind else ""
    sort = "" if value is None else f' data-v="{text(str(value))}"'
    return f"<td{kind}{sort}>{shown}</td>"


def figure(shown: str | None, value: float | None) -> str:
    """A cell with a number; one that is not known sorts last."""
    return cell(DASH if value is None or shown is None else shown, value, "n")


def stamp(wall: float) -> str:
    """A local time, told to machines with its offset."""
    local = time.localtime(wall)
    offset = time.strftime("%z", local)
    machine = time.strftime("%Y-%m-%dT%H:%M:%S", local) + f"{offset[:3]}:{offset[3:]}"
    return f'<time datetime="{machine}">{time.strftime("%Y-%m-%d %H:%M:%S", local)}</time>'
