"""`gpudeck table`: what logs have, kept or not, and what nobody has written down yet."""

from __future__ import annotations

import json

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


def test_what_a_metric_of_another_name_reads_is_not_offered(deck: Commanded) -> None:
    deck.write(TRAINS + "metrics.acc = { regex = 'val_acc=(\\S+)' }\nmetrics.loss = { regex = 'loss=(\\S+)' }\n")
    assert deck.command("--headless", "tasks.toml").code == 0
    told = deck.command("table")
    assert (told.code, "not kept" in told.err) == (0, False), told.err


def test_a_task_whose_end_is_not_written_yet_has_the_metrics_that_its_log_says(deck: Commanded) -> None:
    deck.write('[[task]]\nname = "t"\ngpus = 0\ncommand = "echo ::gpudeck acc=0.5"\n')
    assert deck.command("--headless", "tasks.toml").code == 0
    record = deck.folder / "logs" / "t" / "attempt-1.json"
    record.write_text(json.dumps({key: value for key, value in json.loads(record.read_text()).items() if key != "end"}))
    assert "0.5" in deck.command("table").out


def test_nothing_that_only_an_error_tells_is_offered_as_a_metric(deck: Commanded) -> None:
    train = "def train(lr, loss):\n    raise ValueError(f'bad loss={loss}')\n\n\ntrain(lr=0.1, loss=2.0)\n"
    (deck.folder / "t.py").write_text(train)
    deck.write('[[task]]\nname = "t"\ngpus = 0\ncommand = "{python} t.py"\n')
    assert deck.command("--headless", "tasks.toml").code == 1
    told = deck.command("table")
    assert "no task has reported a metric: name some" in told.err
