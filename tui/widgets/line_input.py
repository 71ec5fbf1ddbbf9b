"""A line to type in, which leaves the keys of screen, tmux and the terminal alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from ..settings.keys import RESERVED


def _without_reserved() -> Iterator[Binding]:
    for binding in Input.BINDINGS:
        if isinstance(binding, Binding):
            keys = [key for key in binding.key.split(",") if key not in RESERVED]
            yield replace(binding, key=",".join(keys))


class LineInput(Input, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = [*_without_reserved()]
