"""ports.Launcher: the same promises from real processes, on kernels that offer more or less, from the fake, and in
simulated worlds."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import pytest

from gpudeck.engine.core.inputs import Input, LeaderExited, TreeGone
from gpudeck.engine.ports import Known, Launcher, StartOrder
from tests.fakes.launcher import FakeLauncher
from tests.fakes.local_rig import claims, until
from tests.inside.contract import Features, LocalLauncher, become_subreaper, watch
from tests.sim.box import Behaviour, Simulated
from tests.sim.launcher import SimLauncher

KINDS = {
    "local": None,
    "local without pidfds": Features(pidfd=False),
    "local without a subreaper": Features(subreaper=False),
    "local without children files": Features(children_files=False),
    "fake": None,
    "sim": None,
}


class World(Protocol):
    """How a test makes an attempt end."""

    @property
    def launcher(self) -> Launcher: ...

    inputs: list[Input]

    def order(self, token: str) -> StartOrder: ...
    def end(self, token: str, code: int) -> None: ...
    async def succeed(self) -> None:
        """The engine dies once all has begun, and another comes: `launcher` is of that."""

    def close(self) -> None: ...


class RealWorld:
    """Attempts that read their exit code from a pipe with a name."""

    def __init__(self, folder: Path, features: Features | None) -> None:
        become_subreaper()
        self.inputs: list[Input] = []
        self._folder = folder
        self._pipes: dict[str, int] = {}
        self._features = features
        self.launcher = self._made()

    def _made(self) -> LocalLauncher:
        folder, loop = str(self._folder / "attempts"), asyncio.get_running_loop()
        box: Any = {"claims": claims(self._folder), "look": lambda _: (), "features": self._features}
        return LocalLauncher(folder, self.inputs.append, loop, **box)

    async def succeed(self) -> None:
        records = [self._folder / "attempts" / token for token in self._pipes]
        await until(lambda: all(record.exists() and record.read_text().endswith("\n") for record in records))
        self.launcher.close()
        self.launcher = self._made()

    def order(self, token: str) -> StartOrder:
        pipe = str(self._folder / f"{token}.pipe")
        os.mkfifo(pipe)
        self._pipes[token] = os.open(pipe, os.O_RDWR)
        env = {**os.environ, "GPUDECK_TOKEN": token}
        argv = ("sh", "-c", 'read code <"$0"; exit $code', pipe)
        log = str(self._folder / f"{token}.log")
        return StartOrder(token, argv, env, str(self._folder), log, log)

    def end(self, token: str, code: int) -> None:
        os.write(self._pipes[token], f"{code}\n".encode())

    def close(self) -> None:
        for pipe in self._pipes.values():
            os.close(pipe)


class FakeWorld:
    """Attempts that end when the fake is told so."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.launcher = FakeLauncher(self.inputs.append, obedient=True)

    def order(self, token: str) -> StartOrder:
        return StartOrder(token, ("true",), {}, "/", "/dev/null", "/dev/null")

    def end(self, token: str, code: int) -> None:
        self.launcher.end(token, code)

    async def succeed(self) -> None:
        before = self.launcher
        self.launcher = FakeLauncher(self.inputs.append, obedient=True)
        tokens = [order.token for order in before.orders]
        self.launcher.fates = {token: "adopted" if token in before.running else "ended" for token in tokens}
        self.launcher.orders = before.orders

    def close(self) -> None:
        pass


class SimWorld:
    """Attempts that are data, in a world in which time passes when nothing else happens."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self._box = Simulated(1, 0)
        self._box.tell = lambda process: self.launcher.told(process)
        self._loop = asyncio.get_running_loop()
        self.launcher = self._made()
        self._timer = self._loop.call_soon(self._go_on)

    def _made(self) -> SimLauncher:
        how = Behaviour(runs_s=_FOR_EVER_S)
        return SimLauncher(self._box, "deck", self.inputs.append, self._loop.call_soon, lambda *_: how, lambda: "")

    def _go_on(self) -> None:
        at = self._box.next_event
        if at is not None and at < _FOR_EVER_S:
            self._box.happen()
        self._timer = self._loop.call_later(0.0005, self._go_on)

    def order(self, token: str) -> StartOrder:
        env = {"GPUDECK_TASK": token, "GPUDECK_ATTEMPT": "1"}
        return StartOrder(token, ("true",), env, "/", "/dev/null", "/dev/null")

    def end(self, token: str, code: int) -> None:
        self._box.exits(self._box.processes[token], code)

    async def succeed(self) -> None:
        self.launcher.close()
        self.launcher = self._made()

    def close(self) -> None:
        self._timer.cancel()


_FOR_EVER_S = 1e9


A, B, C = (f"{letter}-{os.getpid()}" for letter in ("a", "b", "c"))  # adopted processes are found by token


def everywhere(body: Callable[..., Coroutine[None, None, None]]) -> Any:
    """Make a test of a coroutine that takes a world: one of each kind."""
    _, *more = inspect.signature(body).parameters.values()

    async def test(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
        monkeypatch.setattr(watch, "POLL_S", 0.02)
        simple = {"fake": FakeWorld, "sim": SimWorld}.get(kind)
        world = simple() if simple is not None else RealWorld(tmp_path, KINDS[kind])
        with contextlib.closing(world):
            await body(world, **given)
            for token in set(world.launcher.members().values()):
                world.launcher.stop(token, signal=signal.SIGKILL, scope="group", grace_s=0)
            await until(lambda: not world.launcher.members())
            world.launcher.close()

    *own, _ = inspect.signature(test).parameters.values()
    functools.update_wrapper(test, body)
    test.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    return pytest.mark.parametrize("kind", KINDS)(test)


def told(world: World, kind: type[Input], token: str) -> list[Input]:
    return [i for i in world.inputs if isinstance(i, kind) and i.token == token]


async def gone(world: World, token: str) -> TreeGone:
    await until(lambda: told(world, TreeGone, token))
    (found,) = told(world, TreeGone, token)
    assert isinstance(found, TreeGone)
    return found


async def code_of(world: World, token: str) -> int | None:
    await gone(world, token)
    (found,) = told(world, LeaderExited, token)
    assert isinstance(found, LeaderExited)
    return found.code


@everywhere
async def test_a_start_tells_who_leads_the_attempt(world: World) -> None:
    leader = world.launcher.start(world.order(A))
    assert leader is not None
    pid, start_ticks = leader
    assert pid > 0
    assert start_ticks > 0


@everywhere
async def test_nothing_is_told_while_an_attempt_runs(world: World) -> None:
    world.launcher.start(world.order(A))
    world.launcher.start(world.order(B))
    world.end(B, 0)
    await gone(world, B)
    assert not told(world, LeaderExited, A)


@everywhere
async def test_the_end_of_the_leader_is_told_once_and_before_the_end_of_the_tree(world: World) -> None:
    world.launcher.start(world.order(A))
    world.end(A, 0)
    await gone(world, A)
    assert [type(i) for i in world.inputs] == [LeaderExited, TreeGone]


@pytest.mark.parametrize("code", [0, 1, 42, 137, 255])
@everywhere
async def test_the_exit_code_is_the_commands(world: World, code: int) -> None:
    world.launcher.start(world.order(A))
    world.end(A, code)
    assert await code_of(world, A) == code


@everywhere
async def test_attempts_end_in_any_order(world: World) -> None:
    for token in (A, B, C):
        world.launcher.start(world.order(token))
    for token, code in ((C, 3), (A, 1), (B, 2)):
        world.end(token, code)
        await gone(world, token)
    assert [await code_of(world, token) for token in (A, B, C)] == [1, 2, 3]


@everywhere
async def test_a_stop_ends_the_attempt(world: World) -> None:
    world.launcher.start(world.order(A))
    world.launcher.stop(A, signal=signal.SIGTERM, scope="group", grace_s=30)
    assert await code_of(world, A) == 128 + signal.SIGTERM


@everywhere
async def test_a_stop_without_grace_kills(world: World) -> None:
    world.launcher.start(world.order(A))
    world.launcher.stop(A, signal=signal.SIGTERM, scope="group", grace_s=0)
    assert await code_of(world, A) == 128 + signal.SIGKILL


@everywhere
async def test_a_stop_reaches_only_its_attempt(world: World) -> None:
    world.launcher.start(world.order(A))
    world.launcher.start(world.order(B))
    world.launcher.stop(A, signal=signal.SIGTERM, scope="group", grace_s=30)
    await gone(world, A)
    assert set(world.launcher.members().values()) == {B}


@everywhere
async def test_asking_twice_for_a_stop_ends_it_once(world: World) -> None:
    world.launcher.start(world.order(A))
    for grace_s in (30, 30, 20):
        world.launcher.stop(A, signal=signal.SIGTERM, scope="leader", grace_s=grace_s)
    await gone(world, A)
    assert [type(i) for i in world.inputs] == [LeaderExited, TreeGone]


@everywhere
async def test_stopping_what_is_gone_or_was_never_there_is_no_error(world: World) -> None:
    world.launcher.start(world.order(A))
    world.end(A, 0)
    await gone(world, A)
    for token in (A, "never"):
        world.launcher.stop(token, signal=signal.SIGTERM, scope="group", grace_s=0)
    assert len(world.inputs) == 2


@everywhere
async def test_members_names_the_processes_of_running_attempts(world: World) -> None:
    leader = world.launcher.start(world.order(A))
    assert leader is not None
    pid, _ = leader
    assert world.launcher.members()[pid] == A
    assert world.launcher.members().get(1) is None
    world.end(A, 0)
    await gone(world, A)
    assert not world.launcher.members()


@everywhere
async def test_nobody_listens_to_a_warning_once_the_attempt_is_gone(world: World) -> None:
    world.launcher.start(world.order(A))
    world.end(A, 0)
    await gone(world, A)
    assert world.launcher.warn(A, signal.SIGUSR1) == 0


@everywhere
async def test_forgetting_twice_is_no_error(world: World) -> None:
    world.launcher.start(world.order(A))
    world.end(A, 0)
    await gone(world, A)
    for token in (A, A, "never"):
        world.launcher.forget(token)


@everywhere
async def test_an_attempt_that_left_no_trace_never_ran(world: World) -> None:
    assert world.launcher.recover([Known(A, 0, 0)]) == {A: "never ran"}
    assert (await gone(world, A)).never_ran
    assert not told(world, LeaderExited, A)


@everywhere
async def test_the_launcher_after_a_dead_one_tells_how_what_it_left_ends(world: World) -> None:
    pid, ticks = world.launcher.start(world.order(A)) or (0, 0)
    await world.succeed()
    assert world.launcher.recover([Known(A, pid, ticks)]) == {A: "adopted"}
    assert world.launcher.members()[pid] == A
    world.end(A, 3)
    assert await code_of(world, A) == 3


@everywhere
async def test_what_ended_while_no_launcher_was_there_is_known_to_the_next(world: World) -> None:
    pid, ticks = world.launcher.start(world.order(A)) or (0, 0)
    world.end(A, 0)
    await until(lambda: told(world, TreeGone, A))
    world.inputs.clear()
    await world.succeed()
    assert world.launcher.recover([Known(A, pid, ticks)]) == {A: "ended"}
    assert await code_of(world, A) == 0


@everywhere
async def test_what_the_launcher_after_a_dead_one_adopted_can_be_stopped(world: World) -> None:
    pid, ticks = world.launcher.start(world.order(A)) or (0, 0)
    await world.succeed()
    world.launcher.recover([Known(A, pid, ticks)])
    world.launcher.stop(A, signal=signal.SIGTERM, scope="group", grace_s=30)
    await gone(world, A)  # with its code only if somebody was there to be told
    assert not world.launcher.members()
