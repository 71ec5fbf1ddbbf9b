"""Break the code in small ways, one at a time, in copies of the checkout, and print what no test notices.

    python tests/mutate.py --record                        which tests run which functions: once, ten minutes
    python tests/mutate.py [--number 100] [--seed 1]       the fixed sample, or some of it
    python tests/mutate.py --only engine/core/retry.py     all of a file, or of a folder

Each break meets the tests that run the function that it is in, those that run little else first, as far as they take
`LONGEST_S` together. What is printed is either a missing test or makes no difference.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.fakes import reached

ROOT = Path(__file__).resolve().parents[1]
MAP = ROOT / "build" / "mutate"
LONGEST_S = 30.0
"""What the tests of one break may take, by what they took when they were recorded."""
STEPS_S = (4.0, LONGEST_S)
"""They are run in portions of so much: most breaks are noticed by the first."""
SAMPLE = {
    "core": (120, ("engine/core",)),
    "task file": (50, ("engine/taskfile",)),
    "attempts": (35, ("engine/attempts", "engine/loop.py", "engine/decks")),
    "adapters": (65, ("engine/adapters",)),
    "logs": (40, ("engine/logs",)),
    "serve": (30, ("engine/serve", "engine/protocol")),
    "commands": (40, ("cli/commands", "engine/serve/offline.py")),
    "screen": (40, ("tui/drawing", "tui/logs", "tui/screens", "tui/widgets", "tui/acting")),
}
"""How many breaks are drawn from which files."""
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


class Known(NamedTuple):
    """What was recorded of the tests."""

    functions: reached.Functions
    seconds: dict[str, float]
    reach: Counter[str]
    """How many functions each test runs."""

    @classmethod
    def read(cls) -> Known:
        seconds: dict[str, float] = defaultdict(float)
        for case in ElementTree.parse(MAP / "times.xml").iter("testcase"):
            seconds[_test_id(case.get("classname", ""), case.get("name", ""))] += float(case.get("time", 0))
        functions = reached.read(MAP / "reached")
        return cls(functions, seconds, Counter(test for tests in functions.values() for test in tests))

    def of(self, one: Break) -> list[str]:
        """Tests that run what is broken, those that run little else first; of what stands outside of functions, those
        of the functions that name it, or of its file."""
        lines = [number for number in _functions_at(one) if (one.path, number) in self.functions]
        places = [(one.path, lines[-1])] if lines else [*self._naming(one)]
        places = places or [place for place in self.functions if place[0] == one.path]
        tests = {test for place in places for test in self.functions[place]}
        return sorted(tests, key=lambda test: (self.reach[test], test))

    def _naming(self, one: Break) -> Iterator[tuple[str, int]]:
        """Functions that name the class or the constant that a break is in."""
        names = _names_at(one)
        for path in sorted({path for path, _ in self.functions} if names else ()):
            for first, node in _functions_of(path):
                parts = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
                if not names.isdisjoint(parts) and (path, first) in self.functions:
                    yield path, first

    def portions(self, one: Break) -> Iterator[list[str]]:
        tests, spent_s = self.of(one), 0.0
        for limit_s in STEPS_S:
            portion: list[str] = []
            while tests and spent_s < limit_s:
                spent_s += self.seconds.get(tests[0], 1.0) + 0.005
                portion.append(tests.pop(0))
            if portion:
                yield portion


def _test_id(module: str, name: str) -> str:
    """As pytest names it: the file is the longest part of *module* that is one."""
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        file = Path(*parts[:count]).with_suffix(".py")
        if (ROOT / file).exists():
            return "::".join([str(file), *parts[count:], name])
    return f"{module}::{name}"


def _functions_at(one: Break) -> list[int]:
    """First lines of the functions that the break is in, the outermost first."""
    return sorted(first for first, node in _functions_of(one.path) if first <= one.line <= (node.end_lineno or first))


@cache
def _functions_of(path: str) -> list[tuple[int, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Those of a file, with their first lines, decorators included."""
    return [
        (min([node.lineno, *(each.lineno for each in node.decorator_list)]), node)
        for node in ast.walk(ast.parse((ROOT / path).read_bytes()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def _names_at(one: Break) -> set[str]:
    """What the statement defines, outside of functions, that the break is in."""
    for node in ast.parse((ROOT / one.path).read_bytes()).body:
        if node.lineno <= one.line <= (node.end_lineno or node.lineno):
            match node:
                case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                    return {name}
                case ast.Assign(targets=targets):
                    return {target.id for target in targets if isinstance(target, ast.Name)}
                case _:
                    pass
    return set()


class Copies:
    """Copies of the checkout, one for each break that is tried at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mine = threading.local()
        self._count = 0
        self._times = itertools.count(1)
        """No two breaks of a file have the same, so that none is taken for one that was compiled before."""

    def noticed_by(self, one: Break, known: Known) -> str:
        """The portion of tests that notices a break; "" where none does."""
        copy = self._copy()
        path, whole = copy / one.path, (ROOT / one.path).read_bytes()
        path.write_bytes(whole[: one.start] + one.new.encode() + whole[one.end :])
        os.utime(path, (0, next(self._times)))
        try:
            for tests in known.portions(one):
                if self._fail(copy, tests, sum(known.seconds.get(test, 1.0) for test in tests)):
                    return f"{len(tests)} tests"
        finally:
            shutil.copy2(ROOT / one.path, path)
        return ""

    def _fail(self, copy: Path, tests: Sequence[str], expected_s: float) -> bool:
        arguments = copy.parent / "arguments"
        arguments.write_text("\n".join(tests))
        environment = {**os.environ, "PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "--tb=no", "-p", "no:cacheprovider"]
        try:
            done = subprocess.run(
                [*command, f"@{arguments}"],
                cwd=copy, env=environment, capture_output=True, check=False, timeout=90 + 4 * expected_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0

    def _copy(self) -> Path:
        if not hasattr(self._mine, "copy"):
            self._count += 1
            self._mine.copy = self._folder / str(self._count) / "gpudeck"
            left_out = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
            shutil.copytree(ROOT, self._mine.copy, ignore=left_out)
        return self._mine.copy


def record() -> int:
    """Run the default set and keep what each of its tests runs, and how long."""
    shutil.rmtree(MAP, ignore_errors=True)
    (MAP / "reached").mkdir(parents=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={MAP / 'times.xml'}"]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, reached.VARIABLE: str(MAP / "reached")}).returncode


def drawn(seed: int) -> list[tuple[str, Break]]:
    """The fixed sample, in the order of a draw, with the area of each break."""
    found: list[tuple[str, Break]] = []
    for area, (count, places) in SAMPLE.items():
        breaks = [one for path in _files(places) for one in Breaks(path).all()]
        found += ((area, one) for one in random.Random(f"{seed} {area}").sample(breaks, min(count, len(breaks))))
    random.Random(seed).shuffle(found)
    return found


def _files(places: Sequence[str]) -> list[str]:
    paths = [
        path for place in places for path in ((ROOT / place).rglob("*.py") if "." not in place else [ROOT / place])
    ]
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="find out which tests run which functions")
    parser.add_argument("--number", type=int, help="how many breaks of the sample to try; default: all")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws others")
    parser.add_argument("--only", nargs="*", help="files or folders to break instead")
    parser.add_argument("--jobs", type=int, default=2, help="how many are tried at a time")
    asked = parser.parse_args()
    if asked.record:
        return record()
    if asked.only:
        breaks = [(path, one) for path in _files(asked.only) for one in Breaks(path).all()]
        random.Random(asked.seed).shuffle(breaks)
    else:
        breaks = drawn(asked.seed)
    breaks = breaks[: asked.number]
    known = Known.read()
    tried, missed = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as pool:
        copies = Copies(Path(folder))
        noticed_by = pool.map(lambda each: copies.noticed_by(each[1], known), breaks)
        for (area, one), noticed in zip(breaks, noticed_by, strict=True):
            tried[area] += 1
            if not noticed:
                missed[area] += 1
                old = (ROOT / one.path).read_bytes()[one.start : one.end].decode()
                print(f"{one.path}:{one.line}: {old!r} -> {one.new!r} ({len(known.of(one))} tests run it)", flush=True)
    for area, count in tried.items():
        print(f"{area}: {count} breaks, {count - missed[area]} noticed, {missed[area]} not")
    print(f"all: {tried.total()} breaks, {tried.total() - missed.total()} noticed, {missed.total()} not")
    return 0


if __name__ == "__main__":
    sys.exit(main())
