"""Asks the engine on behalf of the screen: one request at a time, in a daemon thread, over a connection of its own."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ...engine.client.connection import Gone
from ...engine.errors import DeckError

SOON_S = 0.5


class Unanswered:
    """Says that the engine keeps somebody waiting, as soon as that is felt: a key must not seem to be broken. Of one
    app, on its loop."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        """By topic."""

    def told(self, what: str, then: Then, *, topic: str = "", silent: bool = False) -> Then:
        """*then*, with a word about *what* was asked for, should its answer not come at once. *topic*: as for
        `Asker.ask`. *silent*: the engine is known not to answer."""

        def say() -> None:
            self._say(f"{what}: the engine has not answered yet")

        if topic in self._waiting:  # that question will have no answer
            self._waiting[topic].cancel()
        waiting = asyncio.get_running_loop().call_later(0 if silent else SOON_S, say)
        if topic:
            self._waiting[topic] = waiting

        def answered(answer: Answer) -> None:
            waiting.cancel()
            then(answer)

        return answered


PATIENCE_S = 5.0
"""An engine that has not answered by then may be frozen."""


@dataclass(frozen=True, slots=True)
class Answer:
    ok: bool
    result: Any = None
    error: str = ""
    """One line: what, where, what to do."""


class Asked(Protocol):
    """Who answers: an engine's connection, or what stands for it where there is none."""

    def request(self, op: str, /, **args: Any) -> Any:
        """Blocks. Raises DeckError; Gone: it has ended, another one may answer."""
        ...

    def silence(self) -> str:
        """What to say while it does not answer."""
        ...

    def close(self) -> None: ...


Then = Callable[[Answer], None]
Deliver = Callable[[Callable[[], None]], None]
"""Brings a call onto the UI's thread."""


@dataclass(frozen=True, slots=True)
class _Question:
    op: str
    args: Mapping[str, Any]
    then: Then
    topic: str


class Asker:
    """`ask` returns at once; *then* is called through *deliver*."""

    def __init__(self, open_: Callable[[], Asked], deliver: Deliver) -> None:
        self._open = open_
        self._deliver = deliver
        self._questions: queue.SimpleQueue[_Question | None] = queue.SimpleQueue()
        self._newest: dict[str, _Question] = {}
        self._asked: Asked | None = None
        self.silent: Callable[[str], None] = lambda _: None
        """Told, as answers are, when one keeps the user waiting: a line about the engine. The answer may still come."""
        threading.Thread(target=self._run, name="gpudeck-ask", daemon=True).start()

    def ask(self, op: str, then: Then, *, topic: str = "", **args: Any) -> None:
        """Of several that wait with the same *topic* only the newest is asked: what the cursor has left is no longer of
        interest."""
        question = _Question(op, args, then, topic)
        if topic:
            self._newest[topic] = question
        self._questions.put(question)

    def close(self) -> None:
        """No more answers come."""
        self._questions.put(None)

    def _run(self) -> None:
        while (question := self._questions.get()) is not None:
            if question.topic and self._newest.get(question.topic) is not question:
                continue
            answer = self._answer(question)
            self._deliver(lambda then=question.then, answer=answer: then(answer))
        self._forget()

    def _answer(self, question: _Question) -> Answer:
        for last in (False, True):
            kept = self._asked is not None
            try:
                asked = self._asked = self._asked or self._open()
                return Answer(True, self._request(asked, question))
            except Gone as error:  # an engine that ended since the last question
                self._forget()
                if last or not kept:
                    return Answer(False, error=str(error))
            except DeckError as error:
                return Answer(False, error=str(error))
        raise AssertionError("the second attempt returns")

    def _request(self, asked: Asked, question: _Question) -> Any:
        def waited() -> None:
            text = asked.silence()
            self._deliver(lambda: self.silent(text))

        waiting = threading.Timer(PATIENCE_S, waited)
        waiting.daemon = True
        waiting.start()
        try:
            return asked.request(question.op, **question.args)
        finally:
            waiting.cancel()

    def _forget(self) -> None:
        if self._asked is not None:
            self._asked.close()
            self._asked = None
