"""An adversary on a real Flux: the sum of watts never passes the cap, every job ends once, and all of them end.

Submissions, updates, cancellations, drains, reloads and kills of the module, a store without room, transactions that
Flux refuses, nodes that leave the resource set while the module runs (lost) or while it is away (excluded).
``WATTQUEUE_ADVERSARIAL_S`` sets the duration of the slow test (an hour by default). The watts are summed afterwards
from the event logs: at each ``alloc`` and ``free`` as Flux's job manager saw them.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.wattqueue_flux.fluxlab import (
    IDLE_W,
    NAME,
    NET_W,
    PATIENCE_S,
    Lab,
    change_module,
    instance,
    missing,
    real_flux,
    wait_for,
    write_config,
)
from tests.wattqueue_flux.instants import decide_again

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
Record = Callable[[str, object], None]
CLIENT = str(Path(__file__).with_name("client.py"))
NODES, ROOM_W = 60, 20 * NET_W
ID = re.compile("[ƒf][1-9A-HJ-NP-Za-km-z]+")
KEPT = 40
"""Nodes of lower ranks are never taken out of the resource set."""
FAULTY = """
import random

def change(h):
    import wattqueue_flux.protocol as protocol
    stored = protocol.commit_async

    def commit_async(handle, **more):
        return stored(handle, namespace="nowhere" if random.random() < 0.05 else None, **more)

    protocol.commit_async = commit_async
    lose_nodes(protocol.SafeScheduler, {kept}, {excluded!r})
    watch_lock(protocol.FluxCluster, {excluded!r} + ".unlocked")


def lose_nodes(scheduler, kept, excluded):
    from flux.idset import IDset

    lost, apply = IDset(), scheduler._apply_resource_update

    def apply_update(self, data):
        if "resources" in data:
            lost.add(open(excluded).read())
            self._resources.remove_ranks(lost)
        if "up" in data:
            data["up"] = str(IDset(data["up"]).subtract(lost))
        gone = IDset(",".join(str(rank) for rank in IDset(data.get("down", "")) if rank >= kept))
        if gone.count() and random.random() < 0.5:
            lost.add(gone)
            data["shrink"] = str(gone)
        apply(self, data)

    scheduler._apply_resource_update = apply_update


def watch_lock(cluster, path):
    def watched(method):
        def call(self, *args, **more):
            if not self.lock._is_owned():
                with open(path, "a") as file:
                    file.write(method.__name__ + "\\n")
            return method(self, *args, **more)

        return call

    for name in ("queued", "prioritized", "expires", "freed", "gone", "not_started", "_start", "_change"):
        setattr(cluster, name, watched(getattr(cluster, name)))
"""
"""The module; Flux refuses one in twenty of its transactions, and tells it of nodes down that they are lost for good.

Emulated nodes have no brokers that could die, and Flux excludes no rank that has none: what Flux would say is put into
its messages.
"""


class Fight:
    """What the adversary does to an instance; ``seed`` decides."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab, self.any = lab, random.Random(seed)
        self.ids: list[str] = []
        """The last 200."""
        self.accepted: set[str] = set()
        self.did: Counter[str] = Counter()

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Short jobs one after the other, beside everything else."""
        seed, accepted = str(self.any.randrange(1000)), self.lab.folder / "ids"
        command = [self.lab.flux, "python", CLIENT, "stream", seed]
        environment = {**os.environ, "FLUX_URI": self.lab.uri}
        with (
            accepted.open("wb") as out,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, env=environment) as client,
        ):
            yield
            client.communicate(b"\n", PATIENCE_S)
        assert client.returncode == 0
        self.accepted.update(accepted.read_text().split())

    def submit(self) -> None:
        """Some jobs of all kinds."""
        more = self.any.choice(
            [
                (),
                ("-t", "30s"),
                ("--urgency=31",),
                ("--urgency=0",),
                ("--begin-time=+1s",),
                ("-t", "1s"),
                ("-n3", "-c2"),
            ]
        )
        if self.ids and self.any.random() < 0.2:
            more = (f"--dependency=afterany:{self.any.choice(self.ids)}",)
        wanted = [("-N1",), ("-N1",), ("-N2",), ("-N5",), ("-N19",), ("-N40", "--job-name=wide")]
        nodes = () if "-n3" in more else self.any.choice(wanted)
        seconds = self.any.choice([0.05, 0.2, 1.0, 3.0])
        many = 1 if "-N19" in nodes else self.any.choice([1, 5, 20])
        said = self.lab.run(
            "submit", *([f"--cc=1-{many}"] if many > 1 else []), f"--setattr=exec.test.run_duration={seconds:g}s",
            *nodes, *more, "true", check=False,
        )  # fmt: skip
        new = [word.replace("ƒ", "f") for word in said.split() if ID.fullmatch(word)]
        self.accepted.update(new)
        self.ids = [*self.ids, *new][-200:]

    def change(self) -> None:
        """Of a job its limit, its urgency, or its existence."""
        if self.ids:
            job = self.any.choice(self.ids)
            command = self.any.choice(
                [("update", job, "duration=+1m"), ("job", "urgency", job, str(self.any.randrange(32))), ("cancel", job)]
            )
            self.lab.run(*command, check=False)

    def drain(self) -> None:
        """Some nodes, and take others back."""
        begin = self.any.randrange(NODES - 10)
        self.lab.run("resource", "drain", f"{begin}-{begin + self.any.randrange(10)}", check=False)
        self.lab.run("resource", "undrain", "--force", f"0-{self.any.randrange(NODES)}", check=False)

    def shrink(self) -> None:
        """The resource set: excluded nodes are no part of it after a reload, and Flux ends the jobs there."""
        begin = self.any.randrange(KEPT, NODES - 1)  # Flux takes "58-59", but not "59-59"
        (self.lab.folder / "excluded").write_text(self.any.choice([f"{begin}-{NODES - 1}", ""]))

    def fill(self) -> None:
        """The disk of Flux's store, for some seconds: jobs come and go meanwhile."""
        broker = self.lab.broker_pid()
        free, most = resource.prlimit(broker, resource.RLIMIT_FSIZE)
        resource.prlimit(broker, resource.RLIMIT_FSIZE, (4096, most))
        for _ in range(3):
            self.submit()
            time.sleep(1.0)
        resource.prlimit(broker, resource.RLIMIT_FSIZE, (free, most))

    def reload(self) -> None:
        """The module, in the regular way."""
        self.lab.reload()

    def kill(self) -> None:
        """The module, without a word."""
        os.kill(self.lab.module_pid(), signal.SIGKILL)
        wait_for("its end", lambda: NAME not in self.lab.run("module", "list"))
        self.lab.load()

    def go(self, seconds: float) -> None:
        """Fight for so long."""
        end_s = time.monotonic() + seconds
        self.lab.submit(1, "--job-name=wide", nodes=40)  # it never fits: refused after the round that is at work
        for deed in (self.submit, self.submit, self.reload, self.fill, self.shrink, self.kill):  # at least once each
            deed()
        deeds = (self.submit, self.change, self.drain, self.reload, self.kill, self.shrink, self.fill)
        while time.monotonic() < end_s:
            (deed,) = self.any.choices(deeds, (60, 30, 6, 4, 4, 6, 2))
            deed()
            self.did[deed.__name__] += 1
            waiting = self.lab.stats()["pending_jobs"]
            time.sleep(0.05 if waiting < 50 else 2.0)

    def peace(self) -> None:
        """Let everything end."""
        (self.lab.folder / "excluded").write_text("")
        self.reload()  # lost and excluded nodes are back
        self.lab.run("resource", "undrain", "--force", f"0-{NODES - 1}", check=False)
        for _ in range(2):  # a wide job that was accepted before a reload waits for another cap
            self.lab.run("python", CLIENT, "release", check=False)  # libev ended it once; what it leaves is seen below
        while left := len(self.left()):  # an hour leaves a thousand, most of them held
            try:
                wait_for(f"the end of one of {left} jobs", lambda: len(self.left()) < left, 120.0, 1.0)
            except AssertionError as error:
                seen = {"stats": self.lab.stats(), "left": self.left(), "log": self.lab.log()[-20_000:]}
                raise AssertionError(f"{error}: {json.dumps(seen)}") from error

    def left(self) -> list[dict[str, Any]]:
        """Jobs that have not ended."""
        return self.lab.jobs(ended=False)


def check_ledger(lab: Lab, record: Record, fought: Fight) -> None:
    """Never more watts than the cap has room for; every job ended once; each round is decided alike again."""
    jobs = [json.loads(line) for line in lab.run("python", CLIENT, "ledger", timeout_s=900.0).splitlines()]
    (lab.folder / "ledger.json").write_text(json.dumps(jobs))
    assert fought.accepted <= {job for job, *_ in jobs}
    steps, not_stored = [], Counter[str]()
    for job, events, watts, stored in jobs:
        names = Counter(name for name, _ in events)
        if isinstance(stored, str):
            not_stored[stored] += 1
        else:
            assert stored == [name for name, _ in events], job
        assert names["clean"] == 1, f"{job}: {events}"
        assert max(names["alloc"], names["start"]) <= 1, f"{job}: {events}"
        at = dict(events)
        if watts:
            freed_s = at["clean"] if at.get("exception") and "free" not in at else at["free"]
            steps += [(at["alloc"], watts[0]), (freed_s, -watts[0])]
    unlocked = lab.folder / "excluded.unlocked"
    assert not unlocked.exists(), f"the driver was changed beside the thread of rounds: {unlocked.read_text()[:500]}"
    used, most = 0, 0
    for _, watts in sorted(steps):
        used += watts
        most = max(most, used)
    record("jobs", len(jobs))
    record("not_stored", dict(not_stored))
    left_w = lab.stats()["used_w"]
    lab.unload()
    found = [decide_again(path, lab.folder) for path in sorted(lab.folder.glob("views*.jsonl"))]
    instants = sum(one.instants for one in found)
    record("instants", instants)
    sys.stderr.write(
        f"{instants} instants, {len(jobs)} jobs, {len(steps) // 2} started, {dict(fought.did)}, {dict(not_stored)}\n"
    )
    sys.stderr.write(f"most {most} W of {ROOM_W} W\n")
    assert most <= ROOM_W
    assert (used, left_w) == (0, 0)
    assert most > ROOM_W / 2, "the cap was put to the test"
    assert [one for recording in found for one in recording.differ] == []


def fight(folder: Path, seconds: float, seed: int, record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """One fight under a constant cap."""
    write_config(folder, NODES, cap_w=NODES * IDLE_W + ROOM_W)
    change_module(folder, FAULTY.format(kept=KEPT, excluded=str(folder / "excluded")), monkeypatch)
    (folder / "excluded").write_text("")
    with instance(folder, emulated=NODES, more=(f"-Sstatedir={folder}", "-Slog-ring-size=100000")) as lab:
        one = Fight(lab, seed)
        with one.stream():
            one.go(seconds)
        one.peace()
        check_ledger(lab, record, one)
        assert seconds < 60.0 or all(word in lab.log() for word in ("storing R", "disk I/O error"))


@real_flux
def test_no_job_gets_around_the_cap(tmp_path: Path, record_property: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    fight(tmp_path, 30.0, 1, record_property, monkeypatch)


@real_flux
@pytest.mark.slow
def test_no_job_gets_around_the_cap_for_an_hour(
    tmp_path: Path, record_property: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = float(os.environ.get("WATTQUEUE_ADVERSARIAL_S", "3600"))
    fight(tmp_path, seconds, 2, record_property, monkeypatch)
