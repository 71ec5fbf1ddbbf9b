"""A setting that the documentation offers is read by the screen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import gpudeck.tui
from tests.inside.tui import Config, Thresholds

TUI = Path(gpudeck.tui.__file__).parent


def attributes_read() -> Iterator[str]:
    for path in TUI.rglob("*.py"):
        if path.name != "settings.py":
            yield from (node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute))


def test_every_setting_is_read_somewhere() -> None:
    offered = {field.name for cls in (Config, Thresholds) for field in fields(cls)}
    assert offered - set(attributes_read()) == set()
