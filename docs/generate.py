"""Writes the generated parts of the documentation; with --check only says which are out of date (exit 1)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from gpudeck.engine.core.phases import ACTIVE, FINAL, LEGAL, NAMES

DOCS = Path(__file__).parent


def state_diagram() -> str:
    """The table of legal moves as a Mermaid diagram. Phases that hold slots are drawn filled."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> waiting"]
    for phase, targets in LEGAL.items():
        lines += [f"    {NAMES[phase]} --> {name}" for name in sorted(NAMES[target] for target in targets)]
    lines += [f"    {NAMES[phase]} --> [*]" for phase in FINAL]
    lines.append("    classDef holds fill:#2d6a4f,color:#fff")
    lines += [f"    class {NAMES[phase]} holds" for phase in ACTIVE]
    return "\n".join([*lines, "```"])


PARTS: tuple[tuple[str, str, Callable[[], str]], ...] = (("architecture.md", "state diagram", state_diagram),)
"""File, name of the part between its markers, and what makes it."""


def renewed(text: str, name: str, content: str) -> str:
    """The text with what stands between a part's markers replaced. Raises ValueError without markers."""
    begin, end = f"<!-- {name}: begin (generated) -->", f"<!-- {name}: end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no markers for {name}")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def outdated(*, write: bool) -> list[str]:
    """Files whose generated parts are not current; *write*: bring them up to date."""
    found: list[str] = []
    for file, name, make in PARTS:
        path = DOCS / file
        text = path.read_text()
        new = renewed(text, name, make())
        if new != text:
            found.append(f"{file}: {name}")
            if write:
                path.write_text(new)
    return found


def main() -> int:
    check = "--check" in sys.argv[1:]
    found = outdated(write=not check)
    for line in found:
        print(f"{'out of date' if check else 'written'}: {line}")
    return int(check and bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
