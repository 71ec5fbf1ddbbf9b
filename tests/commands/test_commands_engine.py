"""`gpudeck engine` as cron starts it: for the deck that its options mean, and for nobody who looks."""

from __future__ import annotations

from tests.commands.commands_rig import Commanded

DECK = """
    [deck]
    gpus = "sim:1"
    [vars]
    word = "plain"
    to = "here"
    [profile.night]
    vars = { word = "night" }
    [[task]]
    name = "say"
    command = "echo {word} >>{to}"
"""


def test_an_engine_without_a_client_runs_the_deck_of_its_profile_with_its_values(deck: Commanded) -> None:
    deck.write(DECK)
    done = deck.shell("gpudeck engine --profile night tasks.toml to=there")
    assert (done.code, deck.lines("there")) == (0, ["night"])
