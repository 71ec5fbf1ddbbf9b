"""A broken edit harms nothing, and whoever looks is told of it."""

from __future__ import annotations

from tests.rigs.desk import Desk, at_desk

DECK = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "long"\ncommand = "sleep 60"\n'


async def problem(desk: Desk, part: str) -> str:
    """What the engine says of the file, once that has *part*; "": that there is nothing to say."""

    async def said() -> str:
        return (await desk.request("status"))["head"]["file_problem"]

    while (found := await said()) != part and (not part or part not in found):
        await desk.later(1)
    return " ".join((await desk.command("status")).out.split())


@at_desk(DECK)
async def test_status_tells_of_a_broken_edit_until_it_is_mended(desk: Desk) -> None:
    await desk.start()
    desk.write(DECK + "gpu = 1\n")
    said = await problem(desk, "gpu")
    assert "cannot be used, the deck goes on as it was" in said
    assert "did you mean" in said
    desk.write(DECK + "gpu = 1\ngpus = -1\n")
    assert "the first: tasks.toml:6: task" in await problem(desk, "2 problems")
    desk.write(DECK)
    assert "cannot be used" not in await problem(desk, "")
