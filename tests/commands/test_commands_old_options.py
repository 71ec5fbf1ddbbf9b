"""What was set for a run that is over does not bind a file that has been changed since."""

from __future__ import annotations

from tests.rigs.desk import Desk, at_desk

WITH = '[deck]\ngpus = "sim:1"\n[vars]\nlr = 0.1\n[[task]]\nname = "a"\ncommand = "echo {lr}; false"\n'
WITHOUT = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "a"\ncommand = "echo new"\n'


@at_desk(WITH, {"a": 1})
async def test_a_variable_that_the_file_no_longer_has_is_forgotten_with_its_run(desk: Desk) -> None:
    assert await desk.run("tasks.toml", "lr=0.2") == 1
    desk.write(WITHOUT)
    looked = await desk.command("ls")
    assert (looked.code, "--set" in looked.err) == (0, False)
    assert (await desk.command("retry", "a")).code == 0
    assert "echo new" in desk.order("a").argv[-1]
