"""Tables of a module's record classes: field, type, meaning, as its source says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def tables(path: Path, names: tuple[str, ...]) -> str:
    """A heading, the first sentence of the docstring and a table for each class, in the order of *names*."""
    classes = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)}
    return "\n\n".join(_section(classes[name]) for name in names)


def _section(node: ast.ClassDef) -> str:
    tag = next((_text(word.value) for word in node.keywords if word.arg == "tag"), "")
    heading = f'### {node.name}, `"type": "{tag}"`' if tag else f"### {node.name}"
    rows = [f"| `{name}` | {kind} | {meaning} |" for name, kind, meaning in _fields(node)]
    parts = [heading, " ".join((ast.get_docstring(node) or "").split())]
    if rows:
        parts.append("\n".join(["| field | type | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(filter(None, parts))


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    after = [*node.body[1:], None]
    for statement, follows in zip(node.body, after, strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            meaning = " ".join(_text(follows.value).split()) if isinstance(follows, ast.Expr) else ""
            kind = ast.unparse(statement.annotation).replace("|", "or").replace(", ...", "")
            default = "" if statement.value is None else f", default {_default(statement.value)}"
            yield statement.target.id, kind + default, meaning


def _default(value: ast.expr) -> str:
    return f"`{ast.unparse(value)}`"


def _text(value: ast.expr) -> str:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
