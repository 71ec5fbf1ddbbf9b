"""Lines that tell nothing of why a program ended: progress, and what libraries write around any end."""

from __future__ import annotations

import re

_PROGRESS = re.compile(r"\d{1,3}%\|.*\||\d(?:it/s|s/it)\b|━━|(?:^|\s)::gpudeck \w")
_CHATTER = re.compile(
    r"\s*(?:$|wandb:(?:\s|$)|COMET (?:INFO|WARNING): |\[neptune\] |ClearML |🏃 |🧪 )"
    r"|[=*─-]{5,}|Exception ignored |\s+warnings\.warn\(|.{0,200}resource_tracker: |frame #"
)
_LOGGED = re.compile(
    r"\s*(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?:[\s:]|$)|\[?(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d|\[?[WEIF]\d{4} "
    r"|[^\s:]{1,200}:\d{1,9}:\d{1,9} \[\d{1,4}\] NCCL |[^\s:]{1,200}:\d{1,9}: [A-Z]\w{0,30}Warning: "
    r"|srun: |slurmstepd: |Process .{1,60}:$"
)


def is_progress(line: str) -> bool:
    """A progress bar's frame, or numbers that were printed for us."""
    return _PROGRESS.search(line) is not None


def is_chatter(line: str) -> bool:
    """A blank line, a ruler, progress, the word of an experiment tracker, …"""
    return _CHATTER.match(line) is not None or is_progress(line)


def stands_alone(line: str) -> bool:
    """Chatter, or an entry of a log, a warning, a launcher's word: it does not go on with what stands before it."""
    return is_chatter(line) or _LOGGED.match(line) is not None
