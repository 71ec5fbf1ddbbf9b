"""That no task is in a state now is an answer; that none has a name is a mistake."""

from __future__ import annotations

import pytest

from tests.rigs.desk import Desk, at_desk

DECK = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "good"\ncommand = "true"\n'


@pytest.mark.parametrize("alive", [True, False], ids=["engine", "no engine"])
@at_desk(DECK, {"good": 0})
async def test_no_task_in_a_state_is_nothing_to_do(desk: Desk, alive: bool) -> None:
    await desk.start()
    await desk.until_state("good", "succeeded")
    if not alive:
        await desk.leave()
    assert await desk.told("ls", "state:failed") == []
    done = await desk.command("retry", "-y", "state:failed")
    assert (done.code, done.out) == (0, "retry: no task is state:failed now\n")
    both = await desk.command("retry", "-y", "good", "state:failed")
    assert both.out == "retry: no task is good and state:failed now\n"
    assert (await desk.command("logs", "state:failed")).code == 2
    assert (await desk.command("ls", "god")).code == 2
