"""Run an agent: connect, read power in each period, carry out what arrives, restore at the end."""

from __future__ import annotations

import fcntl
import os
import queue
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue_agent.agent import Agent
from wattqueue_agent.broker import Connection
from wattqueue_agent.config import AgentConfig
from wattqueue_agent.counters import PerfCounters
from wattqueue_agent.hardware import find_limits
from wattqueue_agent.keeper import Keeper
from wattqueue_agent.originals import Originals

LOCK = "lock"


def run_agent(config: AgentConfig, steps: int = 0) -> None:
    """Run until an exception ends it (Ctrl-C, a signal), or for so many steps; limits are restored in any case.

    Raises: InputError where another agent limits this node, or the configuration names a file that cannot be used.
    """
    with only_agent(config.state_dir):
        agent = new_agent(config)
        keeper = Keeper(config.state_dir, config.timeout_s, agent.instance)
        connection = Connection(config.broker, config.node, f"desired/{config.node}")
        connection.open()
        try:
            keeper.beat()
            agent.resume(time.time())
            if agent.counters is not None:
                agent.counters.start()
            follow(agent, keeper, connection, config.period_s, steps)
        finally:
            agent.restore()
            keeper.end()
            connection.close()
            if agent.counters is not None:
                agent.counters.close()


def new_agent(config: AgentConfig) -> Agent:
    """Return the agent of a configuration, without its connection. Raises: LimitError."""
    limits = find_limits(config.powercap, config.cpufreq, gpus=config.gpus)
    originals = Originals(config.state_dir, config.powercap, config.cpufreq, config.gpus)
    counters = None if config.counters is None else PerfCounters(config.counters, config.period_s)
    return Agent(config.node, uuid.uuid4().hex, limits, config.allowed, originals, counters=counters)


def follow(agent: Agent, keeper: Keeper, connection: Connection, period_s: float, steps: int) -> None:
    """Take messages until the next step is due, again and again; for ever if ``steps`` is 0."""
    due_s, done, stated = time.monotonic(), 0, frozenset[str]()
    while True:
        left_s = due_s - time.monotonic()
        if left_s > 0:  # however many messages arrive: steps are not put off
            with suppress(queue.Empty):
                arrived = connection.arrived.get(timeout=left_s)
                if not keeper.beat():
                    agent.set_again(time.time())
                agent.receive(arrived.text, time.time())
            continue
        if not keeper.beat():
            agent.set_again(time.time())
        state = agent.step(time.time(), time.monotonic())
        connection.send(f"state/{agent.node}", state.text())
        stated = report((*state.problems, *filter(None, [connection.problem])), stated)
        done += 1
        if done == steps:
            return
        # Half a period at least is left to messages, also where steps are late.
        due_s = max(due_s + period_s, time.monotonic() + period_s / 2)


def report(problems: Sequence[str], stated: frozenset[str]) -> frozenset[str]:
    """Write problems that were not there in the step before to the standard error; returns those of this step."""
    with suppress(OSError):  # whoever reads the standard error has gone: limits do not depend on it
        sys.stderr.writelines(f"wattqueue agent: {text}\n" for text in problems if text not in stated)
    return frozenset(problems)


@contextmanager
def only_agent(folder: Path) -> Iterator[None]:
    """Keep a second agent from the node: a locked file in the agent's own folder, which the kernel frees at its end.

    Nobody else can hold it: the file is readable by its owner alone.

    Raises: InputError where there is another agent, or the folder cannot be used.
    """
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        held = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise InputError(f"the lock cannot be made: {error.strerror}", where=path) from error
    try:
        os.fchmod(held, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise InputError("another agent limits this node", where=path, hint="stop it first") from error
    finally:
        os.close(held)
