"""How large the house is: its rooms in code lines and files, record types, torn-out files, floors and circles.

`python bench/house.py` prints today's figures. A code line is one that holds code: no blank, comment or docstring.
`--first-spawn DECK` runs a deck without a screen and counts what happens before its first process is started.
"""

from __future__ import annotations

import ast
import inspect
import io
import os
import sys
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
_RECORDS = frozenset({"Struct", "NamedTuple", "TypedDict"})
_SMALL = 60
_NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


@dataclass(slots=True)
class Module:
    """A file of the product, read and not run."""

    path: Path
    code: int = 0
    imports: int = 0
    records: int = 0
    uses: set[str] = field(default_factory=set[str])
    """Modules of the product that it imports, wherever in the file."""

    @property
    def room(self) -> str:
        """What a visitor sees on the plan: a folder (`engine/core`, `tui/logs`), or a file beside these."""
        parts = self.path.with_suffix("").parts
        return "/".join(parts[:2]) if parts[0] in ("engine", "tui") else parts[0]


def house() -> dict[str, Module]:
    """The product's modules by their dotted names."""
    folders = ("engine", "tui", "cli", "distributed")
    paths = [path.relative_to(ROOT) for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    modules = {_dotted(path): Module(path) for path in paths}
    for name, module in modules.items():
        _read(name, module, modules.keys())
    return modules


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(name: str, module: Module, known: Set[str]) -> None:
    text = (ROOT / module.path).read_text(encoding="utf-8")
    tree = ast.parse(text)
    package = name if module.path.name == "__init__.py" else name.rpartition(".")[0]
    words = set[int]()
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                module.imports += (node.end_lineno or node.lineno) - node.lineno + 1
                module.uses |= set(_imported(node, package, known)) - {name}
            case ast.ClassDef():
                module.records += _is_record(node)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                words |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    module.code = len(lines - words)


def _imported(node: ast.Import | ast.ImportFrom, package: str, known: Set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        return
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
    stem = ".".join(filter(None, (base, node.module)))
    for alias in node.names:
        full = f"{stem}.{alias.name}" if stem else alias.name
        if full in known:
            yield full
        elif stem in known:
            yield stem


def _is_record(node: ast.ClassDef) -> bool:
    bases = {base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases}
    return bool(bases & _RECORDS) or any("dataclass" in ast.unparse(mark) for mark in node.decorator_list)


def circles(uses: Mapping[str, Set[str]]) -> list[list[str]]:
    """Groups that import each other, the smallest sets of them; a group of one is no circle."""
    seen, held, low, order, found = dict[str, int](), list[str](), dict[str, int](), set[str](), list[list[str]]()

    def visit(name: str) -> None:
        seen[name] = low[name] = len(seen)
        held.append(name)
        order.add(name)
        for other in sorted(uses.get(name, ())):
            if other not in seen:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in order:
                low[name] = min(low[name], seen[other])
        if low[name] == seen[name]:
            group = [held.pop()]
            while group[-1] != name:
                group.append(held.pop())
            order.difference_update(group)
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for name in sorted(uses):
        if name not in seen:
            visit(name)
    return found


def floors(uses: Mapping[str, Set[str]], loops: list[list[str]]) -> int:
    """How high the rooms stand on each other; those of a circle share a floor."""
    one_of = {name: group[0] for group in loops for name in group}
    merged = defaultdict[str, set[str]](set)
    for name, others in uses.items():
        me = one_of.get(name, name)
        merged[me] |= {one_of.get(other, other) for other in others} - {me}

    @cache
    def floor(name: str) -> int:
        return 1 + max(map(floor, merged[name]), default=0)

    try:
        tuple(TopologicalSorter(merged).static_order())
    except CycleError as error:
        raise RuntimeError(f"a circle was missed: {error.args[1]}") from error
    return max(map(floor, list(merged)))


def main() -> None:
    modules = house()
    rooms, used_by = defaultdict[str, set[str]](set), Counter[str]()
    code, files = Counter[str](), Counter[str]()
    for module in modules.values():
        code[module.room] += module.code
        files[module.room] += 1
        rooms[module.room] |= {modules[other].room for other in module.uses} - {module.room}
        used_by.update(module.uses)
    for room in sorted(code):
        print(f"{room:28}{code[room]:7}{files[room]:5}")
    total, torn = (
        sum(code.values()),
        [name for name, one in modules.items() if 0 < one.code < _SMALL and used_by[name] == 1],
    )
    between_files, between_rooms = circles({name: one.uses for name, one in modules.items()}), circles(rooms)
    print(f"\ncode lines {total}, files {len(modules)}, record types {sum(one.records for one in modules.values())}")
    print(f"imports {100 * sum(one.imports for one in modules.values()) / total:.0f} % of the code lines")
    print(f"files of one importer {sum(used_by[name] == 1 for name in modules)}, under {_SMALL} lines {len(torn)}")
    print(f"floors {floors(rooms, between_rooms)}")
    for kind, found in (("files", between_files), ("rooms", between_rooms)):
        print(f"circles of {kind} {len(found)}" + "".join(f"\n  {' '.join(group)}" for group in found))


def first_spawn(deck: str) -> None:
    """What `gpudeck --headless DECK` passes before its first process: functions, our files, readings of the deck."""
    functions, reads, done = set[tuple[str, str]](), Counter[str](), threading.Event()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and not done.is_set():
            code = frame.f_code
            where = code.co_filename
            if code.co_flags & inspect.CO_OPTIMIZED and where.startswith(str(ROOT)) and "/.venv/" not in where:
                functions.add((where, code.co_qualname))

    def heard(event: str, args: tuple[object, ...]) -> None:
        if done.is_set():
            return
        if event == "open" and str(args[0]).endswith(os.path.basename(deck)) and "r" in str(args[1] or "r"):
            reads["the task file is read"] += 1
        if event == "os.posix_spawn":
            done.set()

    sys.addaudithook(heard)
    threading.setprofile(called)
    sys.setprofile(called)
    from gpudeck.cli.main import main as gpudeck

    sys.argv = ["gpudeck", "--headless", "-q", deck]
    try:
        gpudeck()
    finally:
        sys.setprofile(None)
        files = {where for where, _ in functions}
        print(f"before the first process: {len(functions)} functions in {len(files)} files, {dict(reads)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--first-spawn"]:
        first_spawn(sys.argv[2])
    else:
        main()
