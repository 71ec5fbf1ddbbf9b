"""Colours of our own, dark and light; Textual's other themes can be chosen too."""

from __future__ import annotations

from typing import Any

from textual.app import App
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


def begin_with(app: App[Any], name: str) -> None:
    """Offer our themes, and have the first picture in the one of *name*, if there is such a one.

    For an app that does not run yet. Set later, a theme has all styles parsed twice more.
    """
    for theme in THEMES:
        app.register_theme(theme)
    if name not in app.available_themes:
        return
    app.set_reactive(App.theme, name)
    dark = app.current_theme.dark
    app.update_classes({f"-theme-{name}": True, "-dark-mode": dark, "-light-mode": not dark}, update=False)
    app._refresh_truecolor_filter(app.ansi_theme)  # pyright: ignore[reportPrivateUsage]
    app.stylesheet.set_variables(app.get_css_variables())
