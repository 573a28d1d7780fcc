"""Let one controller at a time write, of several on different hosts that share a database (PostgreSQL).

A row of the state database names the controller at work and when it was last seen; its holder renews it several times
within ``stale_s``. Another controller takes it over once it is older, by one conditional update, so that of two
standbys one wins; a holder on this host whose process is gone is not waited for. A holder examines the row again
whenever its last renewal is older than a third of ``stale_s``, before each write: a process that was stopped, or whose
host lost the network, cannot write after another has taken over.

The run folder's lock and lease (``live.files.lease``) guard processes of one host; with an SQLite file nothing else is
needed, and a database that fails ends no controller there. With a database of several hosts, a controller that cannot
renew stops writing before another one may take over. The power budget does not depend on any of this: Slurm's licences
hold it, whoever writes.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy import Engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from wattqueue.live.files.lease import LeaseLostError, is_young
from wattqueue.live.state.database import HOLDER, METADATA
from wattqueue.model.plain_numbers import is_whole
from wattqueue.store.failures import cause

NAME = "controller"


@dataclass
class SharedLease:
    """The lease of one process. ``clock`` gives seconds since the epoch; hosts have to agree within some seconds."""

    engine: Engine
    clock: Callable[[], float]
    stale_s: float
    token: str = field(default="")
    """Names this process: host, process id, and a number that is not given out again."""
    renewed_s: float = field(default=-1e18, init=False)
    """Last time at which the database confirmed that this process holds it."""
    problem: str = field(default="", init=False)
    """Why it could not be renewed; empty where it was."""

    def __post_init__(self) -> None:
        # the lease decides who may upgrade the tables, so it does not wait for that
        METADATA.create_all(self.engine, tables=[HOLDER])
        self.token = self.token or f"{socket.gethostname()}/{os.getpid()}/{time.monotonic_ns():020d}"

    @property
    def across_hosts(self) -> bool:
        """Whether controllers on other hosts can share the database."""
        return self.engine.dialect.name != "sqlite"

    def take(self) -> str:
        """Become the holder unless another one was seen within ``stale_s``; return that one, empty where it is ours.

        Raises: SQLAlchemyError where the database fails.
        """
        now_s = self.clock()
        try:
            with self.engine.begin() as connection:
                row = connection.execute(select(HOLDER).where(HOLDER.c.name == NAME)).first()
                if row is None:
                    connection.execute(insert(HOLDER).values(name=NAME, token=self.token, renewed_s=now_s))
                elif row.token != self.token and is_young(now_s - row.renewed_s, self.stale_s) and not _gone(row.token):
                    return f"{row.token.rpartition('/')[0]}, seen {now_s - row.renewed_s:.0f} s ago"
                else:
                    as_seen = (HOLDER.c.token == row.token) & (HOLDER.c.renewed_s == row.renewed_s)
                    change = update(HOLDER).where((HOLDER.c.name == NAME) & as_seen)
                    if connection.execute(change.values(token=self.token, renewed_s=now_s)).rowcount != 1:
                        return "a controller that took over at this moment"
        except IntegrityError:
            return "a controller that started at this moment"
        self.renewed_s, self.problem = now_s, ""
        return ""

    def permit(self) -> str:
        """Return why nothing may be written now; empty where this process is the holder.

        Raises: LeaseLostError where another process holds the lease.
        """
        now_s = self.clock()
        if not 0.0 <= now_s - self.renewed_s < self.stale_s / 3.0:
            self._renew(now_s)
        if not self.problem or not self.across_hosts or now_s - self.renewed_s < self.stale_s / 2.0:
            return ""
        return f"the lease in the database could not be renewed for {now_s - self.renewed_s:.0f} s: {self.problem}"

    def drop(self) -> None:
        """Give the lease up, so that a standby takes over at once; a database that fails keeps it until it is stale."""
        try:
            with self.engine.begin() as connection:
                connection.execute(delete(HOLDER).where((HOLDER.c.name == NAME) & (HOLDER.c.token == self.token)))
        except SQLAlchemyError as error:
            self.problem = cause(error)

    def _renew(self, now_s: float) -> None:
        mine = (HOLDER.c.name == NAME) & (HOLDER.c.token == self.token)
        try:
            with self.engine.begin() as connection:
                kept = connection.execute(update(HOLDER).where(mine).values(renewed_s=now_s)).rowcount == 1
        except SQLAlchemyError as error:
            self.problem = cause(error)
            return
        if not kept and (holder := self.take()):  # a row that nobody holds is ours again
            text = f"the lease is held by {holder}: this process writes nothing more"
            hint = "nothing is to be done: a controller that is started again waits for its turn"
            raise LeaseLostError(text, where=self.engine.url.database, hint=hint)
        self.renewed_s, self.problem = now_s, ""


def _gone(token: str) -> bool:
    """Whether a token is that of a process of this host that has ended."""
    host, pid = token.split("/")[:2]
    if host != socket.gethostname() or not is_whole(pid):
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it runs under another account
        return False
    return False
