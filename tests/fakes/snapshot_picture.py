"""A screen as text that a reviewer can read: the cells, then what is coloured how, in the words of the theme."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby, pairwise

from rich.cells import cell_len
from rich.style import Style
from textual._context import visible_screen_stack
from textual.app import App
from textual.color import Color
from textual.filter import monochrome_style
from textual.strip import Strip

_LETTERS: Mapping[str, str] = {
    "accent": "a", "primary": "p", "secondary": "s", "success": "g", "warning": "w", "error": "e", "muted": "m",
    "faint": "f", "background": "b", "other": "o", "rule": " ",
}  # fmt: skip
_PLAIN = "."
LEGEND = "a accent  p primary  s secondary  g success  w warning  e error  m muted  f faint  b background  o other"
_HUES = (
    "foreground", "accent", "text-accent", "primary", "text-primary", "secondary", "text-secondary", "success",
    "text-success", "warning", "text-warning", "error", "text-error",
)  # fmt: skip
_GROUNDS = ("background", "surface", "panel")
_SHADES = (100, 60, 50, 38, *range(5, 100))
_TINTS = (100, *range(5, 100, 5), *range(5, 100))
"""In percent; the first that fits names the colour."""
_PARTS = ("scrollbar", "scrollbar-background")
_VEIL = 0.6
"""How much of what lies below a question its ground takes away."""
_LEAST_MUTED, _NEAR = 45, 2
"""Percent from which a mixed foreground is muted and not faint; steps of a channel that rounding may cost."""
_Rgb = tuple[int, int, int]


def picture(app: App[object]) -> str:
    """What *app* shows now: its rows, its tones, and grounds that are not the theme's background."""
    width, height = app.size
    strips = cells(app)
    names = _names(app.theme, tuple(sorted(app.theme_variables.items())), app.no_color)
    return "\n".join([
        f"{width}x{height} {app.theme}",
        *_block("text", (strip.text for strip in strips)),
        *_block("tones", (_tones(strip, names) for strip in strips), f"{LEGEND}; capitals and * are bold"),
        *_block("grounds", _grounds([_ground_runs(strip, names) for strip in strips])),
        "",
    ])  # fmt: skip


def cells(app: App[object]) -> list[Strip]:
    """All that is on the screen, row by row."""
    width, height = app.size
    visible_screen_stack.set(app._background_screens)  # what shines through a question, as for a frame of its own
    drawn = app.screen._compositor.render_strips()  # no public way to the cells
    return [strip.crop(0, width) for strip in drawn[:height]]


def _block(title: str, lines: Iterable[str], told: str = "") -> list[str]:
    """Lines by number; those of the last two kinds of block only where there is something."""
    found = [line.rstrip() for line in lines]
    if title == "grounds":
        return ["", "-- grounds, lines and slants", *found] if found else []
    numbered = [f"{number:>2} {line}".rstrip() for number, line in enumerate(found) if line or title == "text"]
    return ["", f"-- {title}" + (f": {told}" if told else ""), *numbered]


class Names:
    """Of a theme's colours. Without colours there is only more and less of the foreground."""

    def __init__(self, variables: Mapping[str, str], *, no_color: bool) -> None:
        def known(*names: str) -> list[tuple[str, _Rgb]]:
            colours = [Style(color=Color.parse(variables[name]).rich_color) for name in names]
            seen = [monochrome_style(style) for style in colours] if no_color else colours
            return [(name, _rgb(style)) for name, style in zip(names, seen, strict=True)]

        hues = ("foreground",) if no_color else _HUES
        self._hues = [(name.removeprefix("text-"), colour) for name, colour in known(*hues)]
        self._bases = known(*_GROUNDS)
        self.background = self._bases[0][1]
        below = [(f"{name} below", _mixed(colour, self.background, _VEIL)) for name, colour in self._bases[1:]]
        self._parts = [*known(*_PARTS), *below]
        self.tone = cache(self._tone)
        self.ground = cache(self._ground)

    def _tone(self, colour: _Rgb, ground: _Rgb) -> str:
        """What a colour of letters is called on that ground. Some were mixed with what lies below that."""
        bases = [base for _, base in self._bases]
        if any(_near(colour, base, 0) for base in bases):
            return "rule" if any(_near(ground, base, 0) for base in bases) else "background"
        auto = Color(*ground).get_contrast_text().rgb
        for below in (ground, *bases):
            for alpha in _SHADES:
                for hue, pure in (*self._hues, ("foreground", auto)):
                    if _near(colour, _mixed(below, pure, alpha / 100)):
                        return _faded(alpha) if hue == "foreground" else hue
        return "other"

    def _ground(self, colour: _Rgb) -> str:
        """Empty for the theme's background."""
        for slack in (0, 1):
            for name, base in (*self._bases, *(self._parts if slack else ())):
                if _near(colour, base, slack):
                    return "" if name == "background" else name
        for slack in (0, 1):
            for base_name, base in self._bases:
                for alpha in _TINTS:
                    for hue, pure in self._hues:
                        if _near(colour, _mixed(base, pure, alpha / 100), slack):
                            on = "" if base_name == "background" else f" on {base_name}"
                            return hue if alpha == 100 else f"{hue} {alpha}%{on}"
        return Color(*colour).hex6


@cache
def _names(theme: str, variables: tuple[tuple[str, str], ...], no_color: bool) -> Names:
    return Names(dict(variables), no_color=no_color)


def _faded(alpha: int) -> str:
    return "plain" if alpha >= 85 else "muted" if alpha >= _LEAST_MUTED else "faint"


def _rgb(style: Style) -> _Rgb:
    assert style.color is not None
    return tuple(style.color.get_truecolor())  # pyright: ignore[reportReturnType]


def _mixed(ground: _Rgb, colour: _Rgb, share: float) -> _Rgb:
    return tuple(round(under + (over - under) * share) for under, over in zip(ground, colour, strict=True))  # pyright: ignore[reportReturnType]


def _near(one: _Rgb, other: _Rgb, slack: int = _NEAR) -> bool:
    return all(abs(left - right) <= slack for left, right in zip(one, other, strict=True))


def _colours(style: Style | None, names: Names) -> tuple[_Rgb | None, _Rgb]:
    """Of letters and ground as they are seen; None: the terminal's own."""
    if style is None:
        return None, names.background
    front = None if style.color is None or style.color.is_default else tuple(style.color.get_truecolor())
    back = (
        names.background if style.bgcolor is None or style.bgcolor.is_default else tuple(style.bgcolor.get_truecolor())
    )
    return (back, front or names.background) if style.reverse else (front, back)  # pyright: ignore[reportReturnType]


def _tones(strip: Strip, names: Names) -> str:
    """A letter a cell; nothing where all of the row is plain."""
    line = "".join(_letters(text, style, names) for text, style, _ in strip)
    return "" if not line.replace(_PLAIN, "").strip() else line


def _letters(text: str, style: Style | None, names: Names) -> str:
    front, back = _colours(style, names)
    tone = "plain" if front is None else names.tone(front, back)
    letter = _LETTERS.get(tone, _PLAIN)
    if style is not None and style.bold:
        letter = "*" if letter == _PLAIN else letter.upper()
    return "".join((" " if char.isspace() else letter) * cell_len(char) for char in text)


_Run = tuple[int, int, str]
"""Cells from, cells to, what they are."""


def _ground_runs(strip: Strip, names: Names) -> tuple[_Run, ...]:
    cells: list[str] = []
    for text, style, _ in strip:
        found = [names.ground(_colours(style, names)[1])]
        if style is not None:
            found += [word for word, on in (("underlined", style.underline), ("italic", style.italic)) if on]
        cells += [", ".join(filter(None, found))] * cell_len(text)
    runs: list[_Run] = []
    at = 0
    for told, same in groupby(cells):
        length = sum(1 for _ in same)
        if told:
            runs.append((at, at + length - 1, told))
        at += length
    return tuple(runs)


def _grounds(rows: Sequence[tuple[_Run, ...]]) -> list[str]:
    """Rows that are alike together: "3-5: 0-79 panel"."""
    starts = [at for at, row in enumerate(rows) if not at or row != rows[at - 1]]
    found: list[str] = []
    for first, behind in pairwise([*starts, len(rows)]):
        if rows[first]:
            where = f"{first}" if behind == first + 1 else f"{first}-{behind - 1}"
            found.append(f"{where}: " + "; ".join(f"{start}-{end} {told}" for start, end, told in rows[first]))
    return found
