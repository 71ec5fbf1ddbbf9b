"""Break the core in small ways, one at a time, in a copy of the checkout, and print what no test notices.

    python tests/mutate.py [--number 100] [--seed 1] [--only engine/core/retry.py] [--tests tests/core]

What is printed is either a missing test or makes no difference. A break takes some seconds, one that nothing notices as
long as all of the tests.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LONGEST_S = 300
COMPARED = {
    ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="), ast.GtE: (">", "<"), ast.Eq: ("!=",),
    ast.NotEq: ("==",), ast.Is: ("is not",), ast.IsNot: ("is",), ast.In: ("not in",), ast.NotIn: ("in",),
}  # fmt: skip
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any", "append": "appendleft", "popleft": "pop"}


class Break(NamedTuple):
    """Bytes *start* to *end* of a file, and what stands there instead."""

    path: str
    line: int
    start: int
    end: int
    new: str


class Breaks:
    """All small breaks of one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.data = (ROOT / path).read_bytes()
        self._starts = [0]
        for line in self.data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def all(self) -> list[Break]:
        tree = ast.parse(self.data)
        said = {part for node in ast.walk(tree) for hint in _hints(node) for part in ast.walk(hint)}
        nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.expr, ast.stmt)) and node not in said]
        return sorted({self._put(at, new) for node in nodes for at, new in self._of(node)})

    def _of(self, node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                yield from ((node, f"({self._text(left)} {other} {self._text(right)})") for other in COMPARED[type(op)])
            case ast.BoolOp(op=op, values=values):
                word, void = (" or ", "True") if isinstance(op, ast.And) else (" and ", "False")
                yield node, "(" + word.join(f"({self._text(value)})" for value in values) + ")"
                yield from ((value, void) for value in values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield node, f"({self._text(operand)})"
            case ast.IfExp(body=body, orelse=orelse):
                yield from ((node, f"({self._text(branch)})") for branch in (body, orelse))
            case ast.If(test=test):
                yield from ((test, new) for new in (f"not ({self._text(test)})", "False"))
            case ast.Constant(value=bool(value)):
                yield node, str(not value)
            case ast.Constant(value=int(value) | float(value)):
                yield node, repr(value + 1)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                yield node, f"({self._text(left)} {'-' if isinstance(op, ast.Add) else '+'} {self._text(right)})"
            case ast.AugAssign() | ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]) | ast.Delete():
                yield node, "pass"
            case ast.Expr(value=ast.Call()):
                yield node, "pass"
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield node, "return None"
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name) as func) if name in SWAPPED:
                yield func, self._text(func).removesuffix(name) + SWAPPED[name]
            case _:
                pass

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self.data[start:end].decode()

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _put(self, node: ast.expr | ast.stmt, new: str) -> Break:
        return Break(self.path, node.lineno, *self._span(node), new)


def _hints(node: ast.AST) -> list[ast.expr]:
    """Annotations and decorators: to break them breaks nothing that runs."""
    match node:
        case ast.FunctionDef(decorator_list=decorators, returns=returns):
            return [*decorators, *([returns] if returns is not None else [])]
        case ast.ClassDef(decorator_list=decorators):
            return decorators
        case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=ast.expr() as annotation):
            return [annotation]
        case _:
            return []


def survives(copy: Path, one: Break, tests: list[str]) -> bool:
    path, whole = copy / one.path, (ROOT / one.path).read_bytes()
    path.write_bytes(whole[: one.start] + one.new.encode() + whole[one.end :])
    environment = {**os.environ, "PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        return False
    finally:
        path.write_bytes(whole)
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=100, help="how many breaks to try")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws others")
    parser.add_argument("--only", nargs="*", help="files to break; default: engine/core")
    parser.add_argument("--tests", nargs="*", default=["tests/core"])
    asked = parser.parse_args()
    paths = asked.only or sorted(str(path.relative_to(ROOT)) for path in (ROOT / "engine" / "core").glob("*.py"))
    found = [one for path in paths for one in Breaks(path).all()]
    drawn = random.Random(asked.seed).sample(found, min(asked.number, len(found)))
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "gpudeck"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info"))
        for one in drawn:
            if survives(copy, one, asked.tests):
                unnoticed += 1
                old = (ROOT / one.path).read_bytes()[one.start : one.end].decode()
                print(f"{one.path}:{one.line}: {old!r} -> {one.new!r}", flush=True)
    print(f"{len(drawn)} of {len(found)} breaks tried, {unnoticed} unnoticed")


if __name__ == "__main__":
    main()
