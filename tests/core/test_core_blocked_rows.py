"""Why a task is blocked, as clients see it while more fails."""

from __future__ import annotations

from core_world import World, spec, world

from gpudeck.engine.ports import Instant
from tests.inside.core import DeckView


class StillClock:
    def __init__(self, found: World) -> None:
        self._found = found

    def now(self) -> Instant:
        return Instant(self._found.now, 0.0)


class Shown:
    """Rows as a client has them, who is told of those that changed."""

    def __init__(self, found: World) -> None:
        self._view = DeckView(found.deck, StillClock(found), file="tasks.toml", infos={})
        self._rows = {row.name: row for row in self._view.rows(list(range(self._view.total)))}
        self._view.changed()

    def reason(self, name: str) -> str:
        for row in self._view.rows(sorted(self._view.changed())):
            self._rows[row.name] = row
        return self._rows[name].reason


def test_a_blocked_row_names_each_need_that_has_failed_since() -> None:
    found = world(spec("t1"), spec("t2"), spec("t3"), spec("report", needs=("t*",)), gpus=3)
    shown = Shown(found)
    found.end("t1", 1)
    assert shown.reason("report") == "needs t1, which did not succeed"
    found.end("t2", 1)
    assert shown.reason("report") == "needs t1, t2, which did not succeed"


def test_a_row_behind_a_closed_round_names_each_failure_and_each_that_was_mended() -> None:
    found = world(*(spec(f"t{n}", round=0) for n in range(3)), spec("next", round=1), gpus=3)
    shown = Shown(found)
    found.end("t0", 1)
    found.end("t1", 1)
    assert shown.reason("next") == "round 0 closed by 2 failed: t0, t1"
    found.verb("retry", "t0")
    found.end("t0")
    assert shown.reason("next") == "round 0 closed by 1 failed: t1"
