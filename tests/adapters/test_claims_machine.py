"""Decks that come and go on a shared box, in any order: no GPU has two of them, and none is lost for ever."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpudeck.engine.ports import SpawnRefusedError
from tests.inside.adapters import Claims

GPUS = [f"GPU-{number}" for number in range(4)]
SOME = st.lists(st.sampled_from(GPUS), min_size=1, max_size=4, unique=True)
DECK = st.sampled_from("abc")


@dataclass
class Attempt:
    gpus: frozenset[str]
    wrapper: int | None


@dataclass
class Deck:
    """What should be true of one deck."""

    claims: Claims
    attempts: dict[str, Attempt] = field(default_factory=dict[str, Attempt])

    @property
    def held(self) -> set[str]:
        opened = self.claims._open  # pyright: ignore[reportPrivateUsage]
        return set() if opened is None else opened.lock.gpus

    @property
    def gang(self) -> bool:
        opened = self.claims._open  # pyright: ignore[reportPrivateUsage]
        return opened is not None and opened.lock.gang

    def kill_engine(self) -> None:
        """Its descriptors are closed, it tidies nothing up."""
        opened = self.claims._open  # pyright: ignore[reportPrivateUsage]
        if opened is not None:
            opened.lock.close()


class SharedBox(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="gpudeck-claims-")
        self.path = str(Path(self.folder.name) / "locks")
        self.decks = {name: Deck(self.fresh(name)) for name in "abc"}
        self.started = 0

    def fresh(self, name: str) -> Claims:
        return Claims(name, name, self.path, self.never)

    def never(self, text: str) -> None:
        raise AssertionError(text)

    # -- what decks do ------------------------------------------------------------------------------------------------

    @rule(name=DECK, gpus=SOME)
    def an_attempt_starts(self, name: str, gpus: list[str]) -> None:
        deck = self.decks[name]
        self.started += 1
        token = f"token{self.started}"
        before = self.others_have(name)
        try:
            wrapper = deck.claims.take(token, gpus, token)
        except SpawnRefusedError as error:
            refused = {uuid for uuid, _ in error.claimed}
        else:
            refused = set[str]()
            deck.attempts[token] = Attempt(frozenset(gpus), wrapper)
        assert refused == before & set(gpus)

    @rule(name=DECK, data=st.data())
    def an_attempt_ends(self, name: str, data: st.DataObject) -> None:
        deck = self.decks[name]
        if deck.attempts:
            token = data.draw(st.sampled_from(sorted(deck.attempts)))
            self.wrapper_ends(deck.attempts.pop(token))
            deck.claims.release(token)

    @rule(name=DECK, data=st.data())
    def a_wrapper_is_killed(self, name: str, data: st.DataObject) -> None:
        deck = self.decks[name]
        if deck.attempts:
            self.wrapper_ends(deck.attempts[data.draw(st.sampled_from(sorted(deck.attempts)))])

    @rule(name=DECK, gpus=st.lists(st.sampled_from(GPUS), min_size=2, max_size=4, unique=True))
    def a_gang_waits(self, name: str, gpus: list[str]) -> None:
        self.decks[name].claims.gather(gpus, "gang")

    @rule(name=DECK)
    def a_gang_waits_no_longer(self, name: str) -> None:
        self.decks[name].claims.gather([], "")

    @rule(name=DECK)
    def a_second_passes(self, name: str) -> None:
        assert not self.decks[name].held & set(self.decks[name].claims.others(GPUS))

    @rule(name=DECK)
    def an_engine_is_killed_and_the_next_one_adopts_what_has_a_wrapper(self, name: str) -> None:
        deck = self.decks[name]
        deck.kill_engine()
        deck.claims = self.fresh(name)
        for token, attempt in list(deck.attempts.items()):
            if attempt.wrapper is None:
                del deck.attempts[token]
            else:
                deck.claims.adopt(token, sorted(attempt.gpus), token)
        # The wrappers of this test are no processes: they hand over before the next engine looks.
        for attempt in deck.attempts.values():
            self.wrapper_ends(attempt)
        deck.claims.others(GPUS)

    # -- what must hold -----------------------------------------------------------------------------------------------

    def others_have(self, name: str) -> set[str]:
        found: set[str] = set()
        for other, deck in self.decks.items():
            if other != name:
                found |= deck.held
        return found

    @invariant()
    def no_gpu_has_two_decks(self) -> None:
        for name, deck in self.decks.items():
            assert not deck.held & self.others_have(name)

    @invariant()
    def what_runs_has_its_gpus(self) -> None:
        for deck in self.decks.values():
            for attempt in deck.attempts.values():
                assert attempt.gpus <= deck.held

    @invariant()
    def only_one_deck_gathers(self) -> None:
        assert sum(deck.gang for deck in self.decks.values()) <= 1

    @invariant()
    def without_the_gang_byte_no_idle_gpu_is_kept(self) -> None:
        for deck in self.decks.values():
            used = {uuid for attempt in deck.attempts.values() for uuid in attempt.gpus}
            assert deck.gang or deck.held <= used

    @precondition(lambda self: self.started > 5)
    @rule()
    def once_all_is_over_every_gpu_is_free(self) -> None:
        for deck in self.decks.values():
            for token, attempt in deck.attempts.items():
                self.wrapper_ends(attempt)
                deck.claims.release(token)
            deck.attempts.clear()
            deck.claims.gather([], "")
        for deck in self.decks.values():
            assert deck.claims.others(GPUS) == {}

    @staticmethod
    def wrapper_ends(attempt: Attempt) -> None:
        if attempt.wrapper is not None:
            os.close(attempt.wrapper)
            attempt.wrapper = None

    def teardown(self) -> None:
        for deck in self.decks.values():
            for attempt in deck.attempts.values():
                self.wrapper_ends(attempt)
            with suppress(OSError):
                deck.claims.close()
        self.folder.cleanup()


TestSharedBox = SharedBox.TestCase
