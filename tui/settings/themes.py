"""Colours of our own, dark and light; Textual's other themes can be chosen too."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

THEMES = (
    Theme(
        name="gpudeck",
        primary="#6fb7d6",
        secondary="#9aa7b5",
        accent="#76b900",
        foreground="#d8dee6",
        background="#14181d",
        surface="#1b2027",
        panel="#20262e",
        success="#7bb662",
        warning="#e0a83a",
        error="#e5645e",
        dark=True,
    ),
    Theme(
        name="gpudeck-light",
        primary="#1f6f94",
        secondary="#5b6672",
        accent="#3f7d00",
        foreground="#1d242c",
        background="#fbfbf9",
        surface="#f2f2ee",
        panel="#e8e8e2",
        success="#2f7d32",
        warning="#9a6700",
        error="#b3261e",
        dark=False,
    ),
)


_OWN_COLOURS = "ansi-dark"
"""The terminal's: no background but what stands out has one."""


def begin_with(app: App[Any], name: str) -> None:
    """Offer our themes, and take the one of *name*, if there is such a one."""
    for theme in THEMES:
        app.register_theme(theme)
    if app.no_color:
        name = _OWN_COLOURS
    if name in app.available_themes:
        app.theme = name


class WithoutColours(LineFilter):
    """Leaves greys out, too, which Textual would send; what has a background of its own is reversed."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        return [Segment(text, style and _without_colours(style), control) for text, style, control in segments]


_DEFAULT = Style(color="default", bgcolor="default")
_REVERSED = Style(reverse=True)


@lru_cache(1024)
def _without_colours(style: Style) -> Style:
    own = style.bgcolor is not None and not style.bgcolor.is_default
    return style + _DEFAULT + (_REVERSED if own else Style.null())
