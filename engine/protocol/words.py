"""States of tasks in sentences, and names of nodes, the same everywhere."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from ..text import plural
from .counts import Counts
from .rows import DeckHead

_SAID = {
    "succeeded": "has succeeded", "failed": "has failed", "cancelled": "was cancelled", "pruned": "was pruned",
    "cached": "was done earlier", "backoff": "waits for its next attempt",
}  # fmt: skip


def stands(state: str) -> str:
    """ "is queued", "has succeeded": after a task's name."""
    return _SAID.get(state, f"is {state}")


def counts_text(counts: Counts) -> str:
    """ "9 tasks: 7 succeeded, 2 failed"."""
    names = (
        "succeeded", "cached", "failed", "cancelled", "pruned", "blocked", "unknown", "running", "pending", "queued",
        "waiting", "backoff",
    )  # fmt: skip
    parts = [f"{getattr(counts, name):,} {name}" for name in names if getattr(counts, name)]
    return f"{plural(counts.total, 'task')}: {', '.join(parts)}" if parts else plural(counts.total, "task")


def goes_on_text(head: DeckHead, *, halted: bool) -> str:
    """What an unpause of a deck that is paused, or *halted*, comes to, behind the command or key for it; "" where
    nothing is left that it could start."""
    counts = head.counts
    if halted and head.ended and not counts.waiting + counts.queued + counts.backoff:
        return ""
    how = ("goes on with what was left" if head.ended else "or a retry goes on") if halted else "goes on"
    return f"{how}, once the budget has more" if head.spent else how


def barred_text(head: DeckHead) -> str:
    """Which rule of the file lets nothing start, and what ends that; "" where none does."""
    if not head.barred:
        return ""
    until = "nothing starts until the file gives more and `gpudeck apply` takes that up"
    if head.spent:
        return f"{head.barred}: {until}"
    return head.barred if head.barred.startswith("nothing starts") else f"nothing starts now: {head.barred}"


def silent_text(since_wall_s: float) -> str:
    """Of a GPU whose driver gives no readings any more: "silent since 14:02:11"."""
    return f"silent since {time.strftime('%H:%M:%S', time.localtime(since_wall_s))}"


def job_text(job: str, nodes: Sequence[str]) -> str:
    """ "job 1234 on node[1-2]", "job 1234" where the cluster has not begun it."""
    return f"job {job}" + (f" on {nodes_text(nodes)}" if nodes else "")


_NODE = re.compile(r"(.*?)(\d+)")


def nodes_text(nodes: Sequence[str]) -> str:
    """Names of nodes as Slurm writes them: "node1", "node[1-3,7]", "a1,b1"."""
    numbers: dict[tuple[str, int], list[int]] = {}
    others: list[str] = []
    for node in nodes:
        found = _NODE.fullmatch(node)
        if found is None:
            others.append(node)
        else:
            numbers.setdefault((found[1], len(found[2])), []).append(int(found[2]))
    told = [_numbered(prefix, width, sorted(set(each))) for (prefix, width), each in numbers.items()]
    return ",".join([*told, *others])


def _numbered(prefix: str, width: int, numbers: Sequence[int]) -> str:
    """Those of one prefix whose numbers have as many digits."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [f"{run[0]:0{width}}" + (f"-{run[-1]:0{width}}" if len(run) > 1 else "") for run in runs]
    return prefix + (texts[0] if len(numbers) == 1 else f"[{','.join(texts)}]")
