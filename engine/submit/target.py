"""A deck as Slurm would get it: its tasks, what is done, and the script of each job. Nothing is started, locked or
changed, and no Slurm is needed."""

from __future__ import annotations

from collections.abc import Mapping

from ..adapters import host
from ..attempts.environment import Box
from ..attempts.outputs import is_done
from ..attempts.start_plan import Planner, StartPlan
from ..core.effects import Launch
from ..decks.cluster import passed_over_nodelists
from ..decks.offline import OfflineDeck
from ..decks.other_decks import OtherDecks
from ..ports import StartOrder
from ..snapshot.fit import check_snapshot
from ..taskfile.fit import check_environment, refuse_later
from ..taskfile.problems import check_together


class Target:
    """The deck, read as a start would read it. Its options ask for Slurm."""

    def __init__(self, found: OfflineDeck) -> None:
        self.file, self.deck, self.logs, self.journal = found.file, found.deck, found.logs, found.journal
        self.environment = found.environment
        self._damage = found.damage
        self._planner = Planner(found.deck, found.logs, _box(found.environment))

    @property
    def warnings(self) -> list[str]:
        """What is wrong with it and passed over."""
        return [*self.file.warnings, *passed_over_nodelists(self.file), *filter(None, [self._damage])]

    def done(self) -> set[str]:
        """Tasks whose results are there, as a start would find; all are asked, for those that others need."""
        others = OtherDecks(self.file)
        found = {task.name for task in self.deck.tasks if is_done(self.deck, task, self.logs, others.at)}
        return found if self.file.settings.skip_existing else found - {spec.name for spec in self.file.chosen}

    def next_attempt(self, task: str) -> int:
        """The number that its next attempt would have."""
        return max(self.deck.by_name[task].attempts, self.logs.highest(task)) + 1

    def planned(self, name: str, attempt: int, token: str) -> tuple[StartPlan, StartOrder]:
        """An attempt of a task as an engine would start it. Raises OSError."""
        task = self.deck.by_name[name]
        plan = self._planner.plan(task, Launch(name, attempt, token, gpus=(), rung=0, may_resume=False))
        return plan, self._planner.order(task, plan)


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
        environment=environment, visible=lambda _: "", index_of={}, cpus_each=1, cores=host.cores(), now=host.boottime_s
    )
