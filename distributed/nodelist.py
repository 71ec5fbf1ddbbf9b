"""Slurm's lists of hosts, in their short form: `login1,rack[1-2]-node[03-05]`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from .errors import DistributedError

_PART = re.compile(r"\[([^][]*)\]|([^][,]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_MOST = 65_536
"""Slurm's own MaxNodeCount."""


def hosts(text: str) -> list[str]:
    """The hosts in their order, zeros in front of numbers kept. Raises DistributedError for what is no list."""
    found: list[str] = []
    for short in _split(text):
        parts = _parts(short, text)
        found += ["".join(chosen) for chosen in itertools.islice(itertools.product(*parts), _MOST)]
    if not found:
        raise _no_list(text)
    return found


def _split(text: str) -> Iterator[str]:
    """At the commas outside of brackets."""
    depth, begin = 0, 0
    for place, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            yield text[begin:place].strip()
            begin = place + 1
    if text.strip():
        yield text[begin:].strip()


def _parts(short: str, text: str) -> list[list[str]]:
    """What may stand at each place of `rack[1-2]-node[3-4]`."""
    parts: list[list[str]] = []
    end = 0
    for match in _PART.finditer(short):
        if match.start() != end:
            break
        parts.append([match[2]] if match[2] else _numbers(match[1], text))
        end = match.end()
    if end != len(short) or not short:
        raise _no_list(text)
    return parts


def _numbers(inside: str, text: str) -> list[str]:
    """`01-03,7` is 01, 02, 03, 7."""
    found: list[str] = []
    for each in inside.split(","):
        match = _RANGE.fullmatch(each.strip())
        if match is None:
            raise _no_list(text)
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < _MOST:
            raise _no_list(text)
        found += [f"{number:0{len(match[1])}d}" for number in range(first, last + 1)]
    return found


def _no_list(text: str) -> DistributedError:
    return DistributedError(f"not a list of hosts as Slurm writes them: {text!r}; MASTER_ADDR can name the first host")
