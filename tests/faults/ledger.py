"""What tasks themselves say: a line when they begin and one when they end, appended to one file, and a kernel lock on
each GPU that their whole tree keeps. Nothing of it passes through the engine, whose books are compared with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LEDGER = "ledger"
WORK = """\
# sh work.sh PLAN: take the GPUs' locks, say so, and carry PLAN out.
say() { echo "$1 $GPUDECK_TASK $GPUDECK_ATTEMPT $$ $GPUDECK_TOKEN $2" >>ledger; }
take() {
  fd=5
  for gpu in $(IFS=,; echo $CUDA_VISIBLE_DEVICES); do
    fd=$((fd + 1))
    eval "exec $fd>>slots/$gpu"
    flock -n $fd || say clash $gpu
  done
}
hold() { exec 3<>"gate.$GPUDECK_TASK"; until read -r _ <&3; do :; done; exec 3>&-; }
finish() { echo "last line of $GPUDECK_ATTEMPT"; echo "last word of $GPUDECK_ATTEMPT" >&2; say end $1; exit $1; }
leave_deaf_child() { sh -c 'trap "" TERM; : >"deaf.$0"; read -r _ <never' $$ & until [ -e "deaf.$$" ]; do :; done; }
echo "first line of $GPUDECK_ATTEMPT"
echo "first word of $GPUDECK_ATTEMPT" >&2
take
say begin "$CUDA_VISIBLE_DEVICES"
eval "$1"
"""

Attempt = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Line:
    """One entry: `begin`, `asked` (a signal was heard), `end` or `clash` (somebody else is on the GPU)."""

    word: str
    task: str
    attempt: int
    pid: int
    token: str
    value: str

    @property
    def who(self) -> Attempt:
        return self.task, self.attempt


class Ledger:
    """The entries so far, in the order in which they were made."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LEDGER
        (folder / "work.sh").write_text(WORK)
        (folder / "slots").mkdir(exist_ok=True)

    def lines(self, word: str = "") -> list[Line]:
        return [line for line in self._all() if word in ("", line.word)]

    def begun(self, task: str) -> list[Line]:
        """The begins of a task's attempts."""
        return [line for line in self.lines("begin") if line.task == task]

    def codes(self) -> Mapping[Attempt, int | None]:
        """The code that each attempt ended with by itself; None for those that were ended."""
        said = {line.who: int(line.value) for line in self.lines("end")}
        return {line.who: said.get(line.who) for line in self.lines("begin")}

    def complaints(self) -> list[str]:
        """What no fault may lead to, as far as tasks saw it."""
        lines = self.lines()
        begins = Counter(line.who for line in lines if line.word == "begin")
        ends = Counter(line.who for line in lines if line.word == "end")
        return [
            *(f"{who} ran {count} times" for who, count in begins.items() if count > 1),
            *(f"{who} ended {count} times" for who, count in ends.items() if count > 1),
            *(f"{line.who} found GPU {line.value} in use" for line in lines if line.word == "clash"),
            *_overlaps(lines),
        ]

    def _all(self) -> Iterator[Line]:
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return
        for line in text.splitlines():
            word, task, attempt, pid, token, *rest = line.split(" ")
            yield Line(word, task, int(attempt), int(pid), token, rest[0] if rest else "")


def _overlaps(lines: Sequence[Line]) -> Iterator[str]:
    """An attempt that began although an earlier one of its task, which ended by itself, had not ended yet."""
    ends = {line.who: at for at, line in enumerate(lines) if line.word == "end"}
    newest: dict[str, Line] = {}
    for at, line in enumerate(lines):
        if line.word == "begin":
            before = newest.get(line.task)
            if before is not None and ends.get(before.who, 0) > at:
                yield f"{line.who} began while {before.who} ran"
            newest[line.task] = line
