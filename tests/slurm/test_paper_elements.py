"""An element of an array that leaves the queue while it waits, of which Slurm keeps no word."""

from __future__ import annotations

from gpudeck.engine.core.inputs import Pending, Submitted
from tests.slurm.launcher_rig import until
from tests.slurm.paper_rig import PaperRig, on_paper


async def waiting(rig: PaperRig) -> list[tuple[str, str]]:
    """Tokens and numbers of three that were seen to wait."""
    tokens = [rig.start("true", options={"array": True}) for _ in range(3)]
    found = [(token, (await rig.told(Submitted, token)).job) for token in tokens]
    for token in tokens:
        await rig.told(Pending, token)
    return found


@on_paper
async def test_one_that_leaves_it_while_others_stay_was_cancelled(rig: PaperRig):
    (other, _), (token, number), _ = await waiting(rig)
    rig.slurm.drop(number)
    await rig.looks()
    await rig.later(110)
    end = await rig.end(token)
    assert (end.cause, end.detail) == ("cancelled", "by scancel")
    assert rig.said(token, "claim") == "void"
    assert not rig.over(other)


@on_paper
async def test_one_that_leaves_it_with_all_of_the_array_is_tried_again(rig: PaperRig):
    elements = await waiting(rig)
    for _, number in elements:
        rig.slurm.drop(number)
    await rig.looks()
    await rig.later(110)
    for token, _ in elements:
        await rig.never_ran(token)


@on_paper
async def test_one_that_an_engine_has_not_seen_wait_is_tried_again(rig: PaperRig):
    _, (token, number), _ = await waiting(rig)
    rig.launcher.close()
    rig.slurm.drop(number)
    rig.again()
    rig.launcher.recover([rig.known(token, number)])
    await rig.looks()
    await rig.later(110)
    await rig.never_ran(token)


@on_paper
async def test_one_that_comes_back_goes_on_waiting(rig: PaperRig):
    _, (token, number), _ = await waiting(rig)
    text = (rig.slurm.folder / "queue" / number).read_text().split("|")[5]
    rig.slurm.drop(number)
    await rig.looks()
    rig.slurm.row(number, "PENDING", text=text)
    await rig.looks()
    await rig.later(110)
    await rig.looks()
    assert not rig.over(token)
    rig.begin(token, number)
    await rig.runs(token)
    rig.end_with(token, 0)
    assert (await rig.end(token)).code == 0
    await until(lambda: rig.over(token))
