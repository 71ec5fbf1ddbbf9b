"""The task file that users edit while its deck runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tomli_w

NAMES: Sequence[str] = tuple(f"t{number}" for number in range(10))
"""All that tasks are ever called: each has a gate from the beginning."""

RUNS: Sequence[str] = ("r0", "r1", "r2")
"""Of `gpudeck run`: single commands beside the deck."""

KINDS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "quick": ("finish 0", {}),
    "held": ("hold; finish 0", {}),
    "fails": ("hold; finish 3", {}),
    "breaks": ("finish 5", {}),
    "flaky": ("test $((GPUDECK_ATTEMPT % 2)) = 0 || finish 4; finish 0", {"retries": 1, "backoff": "200ms"}),
    "polite": ("trap 'finish 7' TERM; hold; finish 0", {}),
    "deaf": ("trap '' TERM; hold; finish 0", {}),
    "leaves": ("leave_deaf_child; finish 0", {}),
    "strays": ("setsid sleep 600 & hold; finish 0", {}),
    "talks": ("i=0; while [ $i -lt 500 ]; do i=$((i+1)); echo line $i; done; hold; finish 0", {}),
    "slow": ("hold; finish 0", {"timeout": "600ms"}),
    "makes": ("echo made >made.$GPUDECK_TASK; finish 0", {"outputs": ["made.{task}"]}),
    "oom": (
        "test \"$SIZE\" = 1 || { echo 'torch.OutOfMemoryError: CUDA out of memory.' >&2; finish 1; }; finish 0",
        {"on_oom": [{"env": {"SIZE": "2"}}, {"env": {"SIZE": "1"}}]},
    ),
    "resumes": ("hold; finish 3", {"resume_command": ["sh", "work.sh", "finish 0"], "retries": 1}),
    "lingers": ("setsid sleep 0.4 & finish 0", {"leftovers": "wait"}),
    "leaves_it": ("sh -c 'sleep 0.4' 6>&- 7>&- & finish 0", {"leftovers": "leave"}),
    "alone": ("hold; finish 0", {"exclusive": True}),
    "nowhere": ("finish 0", {"cwd": "no/such/folder"}),
    "shy": ("finish 0", {"outputs": ["never.made"]}),
    "cpu": ("hold; finish 0", {"gpus": 0}),
    "pair": ("hold; finish 0", {"gpus": 2}),
}
"""What a task does (see `tests/faults/ledger.py`), and keys of its table."""

_DEFAULTS = {"linger": "100ms", "grace": "300ms", "backoff": "300ms"}


@dataclass(slots=True)
class Entry:
    kind: str
    version: int = 0
    """Another one is other work."""
    keys: dict[str, object] = field(default_factory=dict[str, object])
    needs: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class TaskFile:
    deck: dict[str, object]
    tasks: dict[str, Entry] = field(default_factory=dict[str, Entry])
    broken: bool = False

    def add(self, name: str, kind: str, *extras: str) -> None:
        """A new task, or another in the place of one of this name."""
        self.tasks[name] = Entry(kind)
        self.set(name, *extras)

    def set(self, name: str, *extras: str) -> None:
        for extra in extras:
            key, _, value = extra.partition("=")
            if key == "needs":
                self.tasks[name].needs = [value]
            else:
                self.tasks[name].keys[key] = _value(value)

    def untangle(self) -> None:
        """No task waits for another one any more, so that none waits in a circle."""
        for entry in self.tasks.values():
            entry.needs.clear()
            entry.keys.pop("round", None)

    def text(self) -> str:
        tasks = [self._task(name, entry) for name, entry in self.tasks.items()]
        text = tomli_w.dumps({"deck": self.deck, "defaults": _DEFAULTS, "task": tasks})
        return text + "[[task\n" * self.broken

    def _task(self, name: str, entry: Entry) -> Mapping[str, object]:
        work, keys = KINDS[entry.kind]
        needs = [need for need in entry.needs if need in self.tasks]
        tags = ["odd" if int(name[1:]) % 2 else "even"]
        table = {"name": name, "command": ["sh", "work.sh", work], "needs": needs, "tags": tags}
        return {**table, "env": {"VERSION": str(entry.version)}, **keys, **entry.keys}


def _value(text: str) -> object:
    return int(text) if text.lstrip("-").isdecimal() else text
