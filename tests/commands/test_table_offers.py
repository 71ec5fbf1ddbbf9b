"""What logs have and nobody keeps: `gpudeck table` names it, with the line that keeps it."""

from __future__ import annotations

from tests.commands.commands_rig import Commanded

TRAINS = """
[[task]]
name = "t-{lr}"
gpus = 0
command = "echo loss=0.3 val_acc=0.9 lr={lr}"
matrix.lr = [1]
"""


def test_a_metric_that_is_in_the_logs_alone_is_named_with_the_line_that_keeps_it(deck: Commanded) -> None:
    deck.write(TRAINS)
    assert deck.command("--headless", "tasks.toml").code == 0
    told = deck.command("table")
    assert told.code == 2
    assert "not kept, but in the logs: loss, val_acc; a line keeps loss: metrics.loss = " in told.err

    line = told.err.partition("keeps loss: ")[2].splitlines()[0]
    deck.write(TRAINS + line)
    assert deck.command("--headless", "tasks.toml", "--no-skip-existing").code == 0
    told = deck.command("table")
    assert "|  0.3 |" in told.out
    assert "not kept, but in the logs: val_acc; a line keeps it: metrics.val_acc = " in told.err
    assert "not kept" not in deck.command("table", "--metric", "loss").err
