"""Clients: users who watch a deck and ask its engine for things over the protocol; what they are told must be so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.phases import NAMES
from gpudeck.engine.protocol.wire import Bye, Hello, Reply, Request, ToClient
from tests.inside.sim import Picture, folded
from tests.sim import replies
from tests.sim.engine import How
from tests.sim.promises import Broken
from tests.sim.taskfiles import OF_THE_FILE, UNFIT
from tests.sim.wire import SimConnection

if TYPE_CHECKING:
    from tests.sim.world import World

_ENDING = 75
"""Of a reply: the engine is just ending, the next one can."""
_LOOKS_S = (0.0, 0.1, 2.0, 20.0)
"""Between two times that a client reads."""
_PATIENCE_S = 600.0
"""An engine that lives answers within this time."""
_DEAF_S = 10.0
"""A socket that was removed is bound again within this time."""
_TRIES = 4
"""Times that a client comes back to a deck before it gives up."""
_NOTED = frozenset({"cancel", "hold", "release", "priority", "accept", "pause"})
"""What an engine may be started for to note it, and to end."""

Seen = Mapping[str, tuple[str, bool]]


@dataclass(slots=True)
class Wish:
    """What somebody wants of an engine."""

    op: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        said = (",".join(value) if isinstance(value, tuple) else f"{key}={value}" for key, value in self.args.items())
        return " ".join((self.op, *said))


class SimClient:
    """Asks for what it wants, one thing after the other or two at once, and watches if it likes. Killed, or dropped in
    the middle, it leaves its requests behind."""

    def __init__(
        self, world: World, deck: str, random: Random, wishes: Sequence[Wish], *, watches: bool, stays_s: float,
        vanishes: bool, acts: list[str],
    ) -> None:  # fmt: skip
        """*acts*: what can be taken back in this deck, by whomever it was asked for."""
        self.deck = deck
        self._world, self._random = world, random
        self._wishes = list(wishes)
        self._watches, self._stays_s, self._vanishes = watches, stays_s, vanishes
        self._acts = acts
        self._tries = _TRIES
        self._connection: SimConnection | None = None
        self._asked: dict[int, replies.Asked] = {}
        self._last_id = 0
        self._picture: Picture | None = None
        self.gone = False
        world.box.after(0.0, self._look)

    @property
    def _engine(self) -> Any:
        """That of its deck, if there is one."""
        return self._world.engines.get(self.deck)

    # -- what it does

    def _look(self) -> None:
        if self.gone:
            return
        if self._connection is None and not self._connected():
            return
        self._read()
        if self._connection is not None:
            self._go_on()
        if not self.gone:
            wait_s = self._random.choice(_LOOKS_S)
            self._stays_s -= wait_s
            self._world.box.after(wait_s, self._look)

    def _connected(self) -> bool:
        """Whether it has an engine; it comes back later, or never, where there is none."""
        self._connection = self._engine.connect() if self._engine is not None else None
        if self._connection is not None:
            self._picture = None
            self._connection.told = self._told
            if self._watches:
                self._send(Wish("watch", {"events": self._random.random() < 0.3}))
            return True
        if (engine := self._engine) is not None and engine.deaf_s > _DEAF_S:
            raise Broken(f"the engine of {self.deck} lives, and nobody can reach it for {engine.deaf_s:.0f} s")
        self._tries -= 1
        if not self._tries or not self._wishes:
            self.leave()
        else:
            notes = self._wishes[0].op in _NOTED and self._random.random() < 0.5
            self._world.start(self.deck, How(purpose="note" if notes else "act"))
            self._world.box.after(1.0, self._look)
        return False

    def _go_on(self) -> None:
        """Ask for the next thing, or leave."""
        waiting = [asked for asked in self._asked.values() if asked.wish.op != "watch"]
        for asked in waiting:
            asked.waited(self._engine, _PATIENCE_S)
        if self._vanishes and waiting and self._random.random() < 0.3:
            self._world.box.say(f"{self.deck}: a client vanishes")
            self.leave()
        elif self._wishes and (not waiting or self._random.random() < 0.2):
            at_once = len(self._wishes) if self._random.random() < 0.2 else 1
            for _ in range(at_once):
                self._send(self._wishes.pop(0))
        elif not self._wishes and not waiting and self._stays_s <= 0:
            self.leave()

    def _send(self, wish: Wish) -> None:
        assert self._connection is not None
        if wish.op == "undo":
            wish = Wish("undo", {"undo": self._random.choice(self._acts) if self._acts else "none"})
        self._last_id += 1
        if wish.op != "watch":
            self._world.box.say(f"{self.deck}: somebody asks to {wish}")
        if wish.op == "nonsense":
            self._connection.send(b'{"id": 1, "op"\n')
            return
        engine = self._engine
        self._asked[self._last_id] = replies.Asked(wish, engine)
        line = Request(id=self._last_id, op=wish.op, args=wish.args)
        self._connection.ask(line, torn_at=self._random.choice((0, 0, 7)))

    def leave(self) -> None:
        """Nobody sits there any more."""
        self.gone = True
        if self._connection is not None:
            self._connection.drop()
            self._connection = None

    # -- what it is told

    def _told(self, message: ToClient | None) -> object:
        """As the engine lets a message go: a reply must be true then. Returns what the deck was like."""
        if not isinstance(message, Reply) or message.id not in self._asked:
            return None
        asked = self._asked[message.id]
        asked.behind = self._connection is None or self._connection.behind
        try:
            replies.check(asked, message)
        except Broken as error:
            self._world.box.broken_promise = self._world.box.broken_promise or error
        return _seen(asked.engine.deck)

    def _read(self) -> None:
        connection = self._connection
        assert connection is not None
        for message, was in connection.read():
            if isinstance(message, Reply):
                self._answered(message, was)
            elif message is not None and not isinstance(message, (Hello, Bye)):
                self._picture = folded(self._picture, message)
        if connection.over:
            self._connection = None
            lost = [asked.wish for asked in self._asked.values() if asked.wish.op not in ("watch", "stop")]
            self._asked.clear()
            if self._random.random() < 0.5:  # it asks once more; what became of the first time it does not know
                self._wishes[:0] = lost
            if not (self._wishes or (self._watches and self._stays_s > 0)):
                self.leave()

    def _answered(self, reply: Reply, was: object) -> None:
        asked = self._asked.pop(reply.id, None)
        if asked is None:
            if reply.id:
                raise Broken(f"a reply to what nobody asked: {reply}")
            return
        if asked.wish.op != "watch":
            self._world.box.say(f"{self.deck}: {asked.wish} is answered: {_short(reply)}")
        if reply.code == _ENDING and self._random.random() < 0.5:
            self._wishes.insert(0, asked.wish)
        if reply.ok and isinstance(reply.result, dict) and (act := reply.result.get("undo")):
            self._acts.append(act)
        picture = self._picture
        whole = picture is not None and picture.whole and not asked.behind
        if whole and isinstance(was, dict) and picture is not None and (seen := _shown(picture)) != was:
            raise Broken(f"{asked.wish} was answered before it was shown: {_differ(seen, was)}")

    def check(self, deck: Deck) -> None:
        """Where it has read all, it sees the deck as it stands."""
        picture = self._picture
        connection = self._connection
        if picture is None or not picture.whole or connection is None or connection.over or not connection.idle:
            return
        if (seen := _shown(picture)) != (there := _seen(deck)):
            raise Broken(f"a client sees another deck than its engine has: {_differ(seen, there)}")
        in_order = [picture.rows[index].name for index in sorted(picture.rows)]
        if in_order != [task.name for task in deck.tasks]:
            raise Broken(f"a client sees {', '.join(in_order)}, and its engine has another order")


def _short(reply: Reply) -> str:
    """Without what differs from one real moment to the other."""
    if not reply.ok:
        return reply.error
    told = reply.result if isinstance(reply.result, dict) else {}
    return ", ".join(f"{key} {told[key]}" for key in ("tasks", "left", "undo", "gpus", "text") if told.get(key)) or "ok"


def _seen(deck: Deck) -> Seen:
    return {task.name: (NAMES[type(task.phase)], task.held) for task in deck.tasks}


def _shown(picture: Picture) -> Seen:
    return {row.name: (row.state, row.held) for row in picture.rows.values()}


def _differ(seen: Seen, there: Seen) -> object:
    return [(name, seen.get(name), there.get(name)) for name in {**there, **seen} if seen.get(name) != there.get(name)]


_VERBS = ("cancel", "kill", "retry", "hold", "release", "accept", "priority")
_OPS = (
    *_VERBS, *_VERBS, "hold", "release", "pause", "unpause", "undo", "undo", "gpu", "apply", "apply", "start", "stop",
    "change", "status", "rows", "explain", "show", "select", "graph", "timeline", "errors", "options", "nonsense",
    "unknown",
)  # fmt: skip


def wishes(random: Random, names: Sequence[str], gpus: int, most: int = 3) -> list[Wish]:
    """What somebody at a deck of these tasks wants."""
    return [_wish(random, names, gpus) for _ in range(random.randint(1, most))]


def _wish(random: Random, names: Sequence[str], gpus: int) -> Wish:
    op = random.choice(_OPS)
    some = tuple(random.sample(names, min(len(names), random.randint(1, 3))))
    if random.random() < 0.03:
        some = (*some, "nobody")
    match op:
        case "retry":
            values = (
                {"set": {"bs": random.choice([OF_THE_FILE, "2", "2", "3", UNFIT])}} if random.random() < 0.4 else {}
            )
            dry = {"dry_run": True} if values and random.random() < 0.2 else {}
            return Wish(op, {"tasks": some, "downstream": random.random() < 0.2, **values, **dry})
        case "priority":
            return Wish(op, {"tasks": some, "value": random.randint(-3, 3)})
        case "gpu":
            verb = random.choice(["drain", "enable", "enable", "take"])
            return Wish(op, {"verb": verb, "gpus": (str(random.randrange(gpus)),) if gpus else ("0",)})
        case "apply":
            running, finished = random.choice(["end", "restart", "keep"]), random.choice(["rerun", "flag", "keep"])
            dry = {"dry_run": True} if random.random() < 0.3 else {}
            return Wish(op, {"running": running, "finished": finished, **dry})
        case "change":
            return Wish(op, _change(random, names, gpus))
        case "stop":
            return Wish(op, {"tasks": random.random() < 0.5, "now": random.random() < 0.3})
        case "select":
            return Wish(op, {"select": (random.choice([*names, "state:failed", "*"]),)})
        case "rows" | "explain" | "show" | "cancel" | "kill" | "hold" | "release" | "accept":
            return Wish(op, {"tasks": some})
        case _:
            return Wish(op)


def _change(random: Random, names: Sequence[str], gpus: int) -> dict[str, Any]:
    """Other run options; some of them mean nothing here."""
    some = ",".join(str(index) for index in range(gpus) if random.random() < 0.7)
    what = {
        "gpus": random.choice(["all", "all", some or "none"]),
        "slots_per_gpu": random.choice(["1", "2", "2", "0"]),
        "only": (random.choice([*names, *names, "state:failed", "nobody"]), random.choice(names)),
        "with_needs": True,
    }
    return {key: value for key, value in what.items() if random.random() < 0.4}
