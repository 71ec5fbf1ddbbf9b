"""A deck as Slurm would get it: its tasks, what is done, and the script of each job. Nothing is started, locked or
changed, and no Slurm is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..adapters import host
from ..adapters.journal.db import look_at
from ..adapters.slurm.cluster import gpus_of_a_node
from ..adapters.state.folder import load_environment
from ..attempt.box import Box
from ..attempt.environment import base_environment
from ..attempt.orders import Made, Orders
from ..attempt.outputs import is_done
from ..core.apply import replay
from ..core.build import build
from ..core.deck import Deck
from ..core.effects import Launch
from ..core.recorded import Recorded, recorded
from ..core.spec import DeckFile, TaskSpec
from ..logs.files import LogFolder
from ..opening.backends import passed_over_nodelists
from ..opening.other_states import OtherStates
from ..opening.own_state import find_own_state
from ..opening.past import past_of
from ..opening.run_options import holding
from ..snapshot.fit import check_snapshot
from ..taskfile import options as taskfile
from ..taskfile.fit import check_environment, refuse_later
from ..taskfile.load import load, load_settings
from ..taskfile.options import RunOptions
from ..taskfile.problems import check_together


@dataclass(frozen=True, slots=True)
class Target:
    """The deck, read."""

    file: DeckFile
    deck: Deck
    """As the journal leaves it."""
    logs: LogFolder
    environment: Mapping[str, str]
    orders: Orders
    damage: str
    """What is wrong with the journal; "" where nothing is."""
    journal: Recorded

    @property
    def selected(self) -> list[TaskSpec]:
        """In file order."""
        chosen = self.file.selected
        return [spec for spec in self.file.tasks if chosen is None or spec.name in chosen]

    @property
    def warnings(self) -> list[str]:
        """What is wrong with it and passed over."""
        return [*self.file.warnings, *passed_over_nodelists(self.file), *filter(None, [self.damage])]

    def done(self) -> set[str]:
        """Tasks whose results are there, as a start would find; all are asked, for those that others need."""
        if not self.file.settings.skip_existing:
            chosen = {spec.name for spec in self.selected}
            return {name for name in self._done() if name not in chosen}
        return self._done()

    def _done(self) -> set[str]:
        others = OtherStates(self.file)
        return {task.name for task in self.deck.tasks if is_done(self.deck, task, self.logs, others.at)}

    def next_attempt(self, task: str) -> int:
        """The number that its next attempt would have."""
        return max(self.deck.by_name[task].attempts, self.logs.highest(task)) + 1

    def made(self, task: str, attempt: int, token: str) -> Made:
        """What an attempt of it is made of, as an engine would make it. Raises OSError."""
        launch = Launch(task, attempt, token, gpus=(), rung=0, may_resume=False)
        return self.orders.make(self.deck.by_name[task], launch)


def read_target(path: str, options: RunOptions, environ: Mapping[str, str]) -> Target:
    """Read the file and the journal: of an unfinished run under what that was started with. *options* ask for Slurm.
    Raises DeckError."""
    settings = load_settings(path, options)
    state = find_own_state(path, settings.state_dir, options)
    facts, damage = ([], "") if state is None else look_at(state.db)
    journal = recorded(facts)
    environment: Mapping[str, str] = base_environment(environ)
    if state is not None and journal.unfinished:
        options = holding("headless", journal, options)
        environment = load_environment(state.path) or environment
    box = taskfile.Box(gpus_of_a_node(environ) or None, host.cores(), journal.shards)
    look = past_of(facts, ())
    file = load(path, options, box, environ=environment, look=look)
    deck = build(file, gpus=(), cores=host.cores())
    replay(deck, facts)
    logs = LogFolder(file.settings.log_dir, (spec.name for spec in file.tasks))
    orders = Orders(deck, logs, _box(environment))
    return Target(file, deck, logs, environment, orders, damage, journal)


def check_start(target: Target) -> None:
    """What only a start asks for. Raises TaskFileError."""
    check_together(
        lambda: refuse_later(target.file),
        lambda: check_environment(target.file, target.environment),
        lambda: check_snapshot(target.file),
    )


def _box(environment: Mapping[str, str]) -> Box:
    """Of the machine that asks nothing matters to a job but its environment."""
    return Box(
        environment=environment, visible=_no_gpus, index_of={}, cpus_each=1, cores=host.cores(), now=host.boottime_s
    )


def _no_gpus(_: Sequence[str]) -> str:
    return ""
