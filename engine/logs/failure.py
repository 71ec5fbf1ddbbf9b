"""Why an attempt failed, from the ends of its logs. Pure; texts come from `printable.lines_of`."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ..core.events import Outcome
from ..core.spec import TaskSpec
from .cause import HANDLED, RootCause, Traceback, choose_in, context_of, last_words, root_cause, telling_line
from .described import signal_name, signal_of
from .signs import GPU_MEMORY_HINT, HOST_MEMORY_HINT, KILLED_HINT, PORT_HINT, Sign, first_sign

_MAX_DETAIL_CHARS = 200

_OOM_WORDS = re.compile(r".{0,300}(?:[Oo]ut of memory|allocate memory|OutOfMemoryError|MemoryError)[.:]? ?")
_PORT = re.compile(r"\bport:? `?(\d{2,5})\b")
_WORKER_KILLED = re.compile(
    r"killed by signal: Killed|BrokenProcessPool|terminated abruptly|exited unexpectedly|SIGKILL"
)
_SILENT_SIGNALS = frozenset({signals.SIGKILL, signals.SIGTERM, signals.SIGINT, signals.SIGHUP, signals.SIGXCPU})
"""They come from outside: what the log ends with is not their cause."""


def classify(
    err_tail: Sequence[str],
    out_tail: Sequence[str],
    *,
    exit_code: int | None,
    signal: int | None,
    oom_killed: bool = False,
    root: RootCause | None = None,
    ranks: int = 0,
) -> Outcome:
    """Read the ends of stderr and stdout of an attempt that did not succeed.

    *exit_code* as a shell would say it, *signal* only where it is certain, *oom_killed*: the kernel killed something of
    the attempt for lack of memory (its or the cgroup's counters went up). *root*: the rank to blame, where that is
    known otherwise than from these; *ranks*: how many there are, 0 for not known. Of an "oom" `detail` begins
    with whose memory: "CUDA: …", "host: …".
    """

    def ended(reason: Literal["oom", "exit", "signal", "port taken"], detail: str) -> Outcome:
        return Outcome(reason, exit_code, signal, detail)

    root = root or root_cause(err_tail) or root_cause(out_tail)
    # A launcher that names a rank ends by a code of its own: srun by 143 where it has ended the others.
    killed_by = signal or (signal_of(exit_code) if root is None else None)
    silent = killed_by in _SILENT_SIGNALS
    block = choose_in(err_tail, out_tail, root, near=silent)
    context = context_of(err_tail, out_tail, root, block, near=silent)
    sign, line = (None, "") if exit_code == 0 else _find_sign(context, sure=block is not None, crashed=bool(killed_by))
    if sign is not None and block is not None:
        # The line of the program that raises it may say the same.
        line = next((said for said in reversed(block.exceptions) if sign.pattern.search(said)), line)
    who = rank_in_words(root, ranks)
    if sign is not None and sign.kind in ("gpu memory", "host memory"):
        where = "CUDA" if sign.kind == "gpu memory" else "host"
        return ended("oom", _detail(", ".join(filter(None, (where, who))), _memory_words(line)))
    said = _said(block, line, context, err_tail, _signal_of_rank(root) or killed_by)
    if oom_killed and (_killed(root, killed_by) or _WORKER_KILLED.search(said)):
        return ended("oom", _detail(", ".join(filter(None, ("host", who))), "killed by the kernel"))
    if sign is not None and sign.kind == "port":
        port = _PORT.search(said)
        return ended("port taken", _detail(who, f"port {port[1]}" if port else said))
    outcome = ended("exit" if killed_by is None else "signal", _detail(who + _how(root), said))
    faulty = (sign is not None and sign.kind == "device") or _lost_its_gpu(err_tail)
    return replace(outcome, device_fault=faulty)


def hint_of(outcome: Outcome, spec: TaskSpec | None = None) -> str:
    """What the user may do about this end, one line; empty: nothing known. *spec*: what ended, where it is known."""
    if outcome.reason in ("timeout", "watch") and spec is not None and _may_hang(spec):
        return f"if its ranks wait for each other: `gpudeck retry {spec.name} --debug` tells in which call"
    if outcome.reason == "port taken":
        return PORT_HINT
    if outcome.reason == "oom":
        return HOST_MEMORY_HINT if outcome.detail.startswith("host") else GPU_MEMORY_HINT
    if outcome.reason not in ("exit", "signal"):
        return ""
    if found := first_sign(outcome.detail):
        return found[0].hint
    killed = outcome.reason == "signal" and signal_of(outcome.exit_code) == signals.SIGKILL
    return KILLED_HINT if killed or outcome.detail.endswith("killed by KILL") else ""


def _may_hang(spec: TaskSpec) -> bool:
    """Several processes, or one with several GPUs, which waits for others in collective calls."""
    return spec.extras.launch != "command" or spec.resources.gpus not in (0, 1)


def _find_sign(context: Sequence[str], *, sure: bool, crashed: bool) -> tuple[Sign | None, str]:
    """The most important sign and its line.

    Without a traceback (*sure*) lines that speak of something handled do not count, and what is not about memory or the
    device counts only near the end, unless a crash (*crashed*) may have printed long stacks after it.
    """
    sign, line = _sign_in(context if sure else [line for line in context if not HANDLED.search(line)])
    if sign is None or sure or crashed or sign.kind != "other":
        return sign, line
    return _sign_in(last_words(context))


def _sign_in(lines: Sequence[str]) -> tuple[Sign | None, str]:
    text = "\n".join(lines)
    found = first_sign(text)
    if found is None:
        return None, ""
    sign, match = found
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    return sign, text[start : end if end >= 0 else len(text)]


def _lost_its_gpu(err: Sequence[str]) -> bool:
    """torch only warns when it cannot initialise CUDA; the program then fails with words of its own."""
    warnings = (line for line in err if "UserWarning: CUDA initialization: " in line)
    return any((found := first_sign(line)) is not None and found[0].kind == "device" for line in warnings)


def _said(
    block: Traceback | None, sign_line: str, context: Sequence[str], err: Sequence[str], killed_by: int | None
) -> str:
    if block is not None:
        return block.summary
    if killed_by in _SILENT_SIGNALS:
        return ""
    return sign_line or telling_line(context, err)


def rank_in_words(root: RootCause | None, ranks: int) -> str:
    """ "rank 3 of 8"; "" for none."""
    if root is None:
        return ""
    return f"rank {root.rank} of {ranks}" if ranks else f"rank {root.rank}"


def _how(root: RootCause | None) -> str:
    """How a rank ended: the launcher's own code is always the same."""
    if root is None or root.exit_code is None:
        return ""
    return f" killed by {signal_name(-root.exit_code)}" if root.exit_code < 0 else f": exit code {root.exit_code}"


def _signal_of_rank(root: RootCause | None) -> int | None:
    return -root.exit_code if root is not None and root.exit_code is not None and root.exit_code < 0 else None


def _killed(root: RootCause | None, killed_by: int | None) -> bool:
    return signals.SIGKILL in (killed_by, _signal_of_rank(root))


def _memory_words(line: str) -> str:
    """ "Tried to allocate 2.00 GiB. GPU 0 has …" of torch's line, without the class and the words said anyway."""
    found = _OOM_WORDS.match(line)
    left = line[found.end() :] if found else line
    return left if any(map(str.isalnum, left)) else ""


def _detail(who: str, said: str) -> str:
    detail = ": ".join(part for part in (who, said.strip()) if part)
    return detail if len(detail) <= _MAX_DETAIL_CHARS else detail[: _MAX_DETAIL_CHARS - 1].rstrip() + "…"
