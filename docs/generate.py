"""Writes the generated parts of the documentation; with --check only says which are out of date (exit 1)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from fields import tables
from settings import keys, settings

from gpudeck.cli.arguments import parser_of
from gpudeck.cli.verbs import VERBS, Verb
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


def messages() -> str:
    """The records of the protocol as tables."""
    folder = DOCS.parent / "engine" / "protocol"
    names = ("Hello", "Request", "Reply", "Snapshot", "Tasks", "Ready", "Delta", "Event", "Bye")
    rows = ("DeckHead", "TaskRow", "GpuRow", "GpuMemory", "GpuProcess", "Cluster", "ClusterRow")
    return tables(folder / "wire.py", names) + "\n\n" + tables(folder / "rows.py", rows)


def pages() -> str:
    """The records that answer requests of a screen's further pages."""
    names = ("TimelinePage", "AttemptRow", "Graph", "GraphBox", "GraphEdge", "GraphBarrier", "Failures", "Failure")
    return tables(DOCS.parent / "engine" / "protocol" / "pages.py", names)


def commands() -> str:
    """Each command with its words and options, as its parser has them."""
    parts: list[str] = []
    for verb in VERBS.values():
        if not verb.hidden:
            parts.append(_command(verb))
    return "\n\n".join(parts)


def _command(verb: Verb) -> str:
    lines = [f"### gpudeck {verb.name}", "", f"{verb.text[0].upper()}{verb.text[1:]}.", "", f"    {verb.example}"]
    rows: list[str] = []
    for action in parser_of(verb.name)._actions:
        if action.dest in ("help", "file", "profile", "name", "runs") or action.help == argparse.SUPPRESS:
            continue
        shown = ", ".join(action.option_strings) or str(action.metavar)
        if action.option_strings and action.nargs != 0:
            shown += f" {action.metavar or action.dest.upper()}"
        text = (action.help or "").replace("%%", "%")
        shown = f"<code>{shown}</code>" if "|" in shown else f"`{shown}`"
        # A pipe in code, escaped or not, is shown wrongly by the site or by GitHub.
        rows.append(" | ".join(("", *(cell.replace("|", "&#124;") for cell in (shown, text)), "")).strip())
    if rows:
        lines += ["", "| | |", "|---|---|", *rows]
    return "\n".join(lines)


def seen() -> str:
    """The records of dev/gpus-seen/, each with its title and how many lines held."""
    rows: list[str] = []
    for page in sorted(DOCS.glob("dev/gpus-seen/*.md")):
        title, _, told = page.read_text().splitlines()[:3]
        rows.append(f"- [{title.removeprefix('# ')}](gpus-seen/{page.name}): {told}")
    return "\n".join(rows) or "None yet: no card has been asked."


PARTS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("dev/architecture.md", "state diagram", state_diagram),
    ("dev/protocol.md", "messages", messages),
    ("dev/protocol.md", "pages", pages),
    ("commands.md", "commands", commands),
    ("keys.md", "keys", keys),
    ("keys.md", "settings", settings),
    ("dev/gpus-seen.md", "seen", seen),
)
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
