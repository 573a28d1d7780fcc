"""Memory and node counts by hand, and through an order."""

import numpy as np

from wattqueue.formats.unusable import Unusable
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.memory import nodes_for_memory, with_nodes_for_memory
from wattqueue.parts.order.all_partitions import AllPartitions
from wattqueue.policy.policy import load_policy
from wattqueue.runs.perform import RunInputs, perform
from wattqueue.runs.task import Task

MACHINE = Machine(
    "m",
    (
        Partition("small", 10, memory_gb=192.0),
        Partition("large", 4, memory_gb=384.0),
        Partition("unknown", 1),
    ),
)


def jobs_with(memory: list[float]) -> Jobs:
    n = len(memory)
    return Jobs.build(np.zeros(n), [2] * n, [10.0] * n, extra={"memory_gb": np.array(memory)})


def test_nodes_by_hand() -> None:
    jobs = jobs_with([np.nan, 384.0, 385.0, 1000.0])
    assert nodes_for_memory(KnownJobs.of(jobs), MACHINE).tolist() == [[2, 2, 2], [2, 2, 2], [3, 2, 2], [6, 3, 2]]
    plain = Jobs.build([0.0], [2], [10.0])
    assert nodes_for_memory(KnownJobs.of(plain), MACHINE).tolist() == [[2, 2, 2]]


def test_sockets_share_their_nodes_memory() -> None:
    machine = Machine("s", (Partition("p", 4, unit="socket", sockets_per_node=2, memory_gb=100.0),))
    assert nodes_for_memory(KnownJobs.of(jobs_with([140.0])), machine).tolist() == [[3]]


def test_a_job_is_offered_the_partitions_whose_memory_suffices_as_asked() -> None:
    jobs = jobs_with([np.nan, 400.0, 1000.0])
    entries = AllPartitions().entries(
        KnownJobs.of(jobs), Prediction(np.ones((1, 3)), np.ones((1, 3)), np.zeros(3, np.int32)), MACHINE
    )
    pairs = set(zip(entries.job.tolist(), entries.partition.tolist(), strict=True))
    # "unknown" states no memory, and is one node: too narrow for all three.
    # 1,000 GB on two nodes go nowhere: no entry, so the engine rejects it.
    assert pairs == {(0, 0), (0, 1), (1, 1)}


def test_a_job_that_fits_nowhere_as_asked_gets_more_nodes() -> None:
    two = Machine("m", MACHINE.partitions[:2])
    wider = with_nodes_for_memory(jobs_with([np.nan, 400.0, 1000.0, 1e6]), two)
    assert wider.nodes.tolist() == [2, 2, 3, 2]  # a petabyte fits nowhere: left as asked, for the engine to reject


def test_a_run_gives_jobs_the_nodes_that_their_memory_needs_where_they_may_run() -> None:
    """The second names the small partition, where 400 GB take three nodes; the last fits nowhere and stays as asked."""
    memory = np.array([np.nan, 400.0, 1000.0, 1e6])
    jobs = Jobs.build(np.zeros(4), [2] * 4, [10.0] * 4, partition=["", "small", "", ""], extra={"memory_gb": memory})
    two = Machine("m", MACHINE.partitions[:2])
    inputs = RunInputs(Task("(in memory)"), jobs, Unusable(), two, load_policy("easy"), Cap.none())
    run = perform(inputs).run
    assert run.jobs.nodes.tolist() == [2, 3, 3, 2]
    assert run.schedule.ran.all()
    assert run.notes["jobs with more nodes than they ask for, for their memory"] == 2
