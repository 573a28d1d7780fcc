"""The readers that are fuzzed, each with small files of its format, built here."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tests.formats.test_published import fdata, pm100
from tests.formats.test_rundir import example
from tests.formats.test_slurm_json import new, old, shifted
from wattqueue.campaign.file import read_campaign
from wattqueue.formats.cap import read_cap
from wattqueue.formats.ear.eacct import read_eacct
from wattqueue.formats.ear.files import read_apps_csv, read_coefficients_binary, read_coefficients_csv
from wattqueue.formats.epoch import trace_epoch_s
from wattqueue.formats.machine.file import machine_toml, read_machine
from wattqueue.formats.read import ReadOptions, read_workload
from wattqueue.formats.rundir.folder import read_run, write_run
from wattqueue.formats.series import read_steps
from wattqueue.formats.slurm.sacct import read_energies
from wattqueue.formats.table.job_table import read_table, write_table
from wattqueue.formats.unit_factors import read_unit_factors
from wattqueue.formats.unusable import read_unusable
from wattqueue.formats.workloads.archer2 import read_archer2
from wattqueue.formats.workloads.eurora import read_eurora
from wattqueue.formats.workloads.swf import write_swf
from wattqueue.live.config import load_config
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.profiles import PowerProfiles
from wattqueue.policy.policy import load_policy
from wattqueue_studies.chips.chip_runs import read_chip_runs
from wattqueue_studies.clustercockpit import read_node_series
from wattqueue_studies.pmc.activity import read_activity
from wattqueue_studies.pmc.readings import read_counters_csv, read_mpstat, read_perf_stat

MACHINE = Machine("m", (Partition("a", 8, frequencies_hz=(2.0e9, 1.5e9), idle_w=10, max_w=100),))
SACCT = (
    "JobID|JobName|User|Partition|Submit|Start|End|Elapsed|Timelimit|State|NNodes|AllocTRES|ReqMem|NodeList|"
    "ConsumedEnergyRaw\n"
    "7|app|ann|batch|2026-10-25T01:00:00|2026-10-25T02:10:00|2026-10-25T03:10:00|01:00:00|02:00:00|COMPLETED|2|"
    "cpu=8,energy=3600000,node=2|4Gn|n[1-2]|3600000\n"
    "7.batch|batch||||2026-10-25T02:10:00|2026-10-25T03:10:00|01:00:00||COMPLETED|1||||900000\n"
    "7.0|x||||2026-10-25T02:10:00|2026-10-25T03:10:00|01:00:00||COMPLETED|2|||n[1-2]|3500000\n"
    "12_[3-9]|arr|bob|batch|2026-10-25T01:00:00|Unknown|Unknown|00:00:00|UNLIMITED|PENDING|1||1G||\n"
    "8+1|het|bob|batch|2026-10-25T05:00:00|2026-10-25T05:00:00|2026-10-25T06:30:00|01:30:00|1-00:00:00|CANCELLED|1|"
    "node=1|2000Mc|n3|4.58M\n"
)
EACCT = (
    "JOBID;USER;APPID;TIME_SEC;CPI;TPI;DC_NODE_POWER_W;AVG_CPUFREQ_KHZ\n"
    "1;ann;x;100;0.5;1;300;2400000\n2;b;y;5;1;2;200;2\n"
)
COEFFICIENTS = "module,f_ref_ghz,f_target_ghz,available,A,B,C,D,E,F\np1,2.4,2.4,1,1,0,0,1,0,0\n"
APPS = "app_id,module_index,time_s,power_w,cpi,tpi\n1,0,5,300,0.5,1\n2,0,6,200,0.5,1\n"
SWF = "; Version: 2.2\n; UnixStartTime: 1000000000\n" + "".join(
    f"{i} {i * 10} 5 60 2 -1 -1 2 120 -1 1 {i} 1 3 1 1 -1 -1\n" for i in range(1, 6)
)
EURORA = (
    "job_id,queue,submit,start,est_hhmm,n_nodes,cores_used,runtime_s,power_pred_w\n"
    "1,par,2014-04-01 10:00:00,2014-04-01 10:05:00,01:00,1,16,600,120.5\n"
    "2,par,2014-04-01 11:00:00,2014-04-01 11:05:00,2:30,2,8,60,80\n"
)
TRAFFIC = "job_id,submit_s,app,sockets,estimated_s\n1,0,ferret,1,50.0\n2,20,bt-mz_D.8,8,120.0\n"
PERF = """# started
1.000105,S0,16,48000,,cycles,16000000000,100.00,,
1.000105,S0,16,<not counted>,,branches,0,0.00,,
2.000231,S0,16,47000,,cycles,16000000000,100.00,,
"""
MPSTAT = """Linux 3.10.0 (node)

10:00:00 AM  CPU    %usr   %idle
10:00:01 AM    0  100.00    0.00
10:00:01 AM    1   50.00   50.00

Average:     CPU    %usr   %idle
Average:       0  100.00    0.00
"""
READINGS = "time_s,socket,active_cores,cycles\n0,0,1,5\n1,0,2,90\n2,0,2,190\n"
ACTIVITY = """# wattqueue activity schema_version=1
app,process,socket,time_s,active_cores,fetch,branch,alu,fp,l1,l2,l3,memory,watts
bt,0,s0,1,16,1.9,0.1,1.1,0.8,0.7,0.05,0.01,0.002,101.4
bt,0,s0,2,16,1.9,0.1,1.1,0.8,0.7,0.05,0.01,0.002,
"""
FACTORS = (
    "# wattqueue unit factors schema_version=1 origin=measured\napp,unit,watts,factor\nx,u1,100,1.05\nx,u2,95,0.95\n"
)
CHIP_RUNS = "uuid,perf,freq,temp,pwr,mean_pwr\na,10,1500,50,200,190\nb,11,1510,51,210,195\n"
NODE_SERIES = """job_id,host,t_s,clock,cpu_load,flops_any,ipc,mem_bw,rapl_power
7,b,0,2100,5,11,1.1,31,210
7,b,60,,,,,,
"""
ARCHER2 = (
    "JobID,NNodes,ReqCPUFreq,ElapsedRaw,ConsumedEnergyRaw,app,case,nodes_from_scripts\n"
    "30.0,4,2.0G,600,720000,vasp,big,4\n30.1,,2.25G,60,72000,vasp,,2\n30.batch,1,,5,5,vasp,,1\n"
)
POLICY = (
    '[mine]\nsource = "a test"\nestimator = { part = "history-mean", window_s = 5.0 }\norder = "fcfs"\n'
    'frequency = "highest"\nplacement = "lowest"\nbackfill = { part = "easy", queue_depth = 100 }\n'
    'ledger = "predicted"\ncontrols = []\n'
)
CAMPAIGN = (
    'policies = ["easy", "fcfs"]\ncaps = ["none", "5kW"]\nseeds = [1, 2]\nnodes = 16\nnode_watts = "100:300"\n'
    '[[workloads]]\ntrace = "lublin:jobs=100"\n'
)
LIVE = 'policy = "easy"\nmachine = "m.toml"\ncap = "none"\nmode = "observe"\n[slurm]\npool = "reservation"\n'


@dataclass(frozen=True)
class Target:
    """A reader: files to begin with, and a call that reads one from a path."""

    name: str
    files: tuple[tuple[str, bytes], ...]
    read: Callable[[Path, int], Any]
    """Takes the path and a number that picks among options."""
    workload: bool = False
    """Whether the result is a job table that must survive being written and read back."""


def workload(path: Path, pick: int) -> Jobs:
    """Read a workload of any format with some options."""
    zones = (None, "Europe/Berlin", "+02:00")
    options = ReadOptions(
        time_zone=zones[pick % 3],
        default_walltime_s=(None, 3600.0)[pick % 2],
        node_watts=(None, (95.0, 500.0))[pick // 2 % 2],
        queued=pick % 5 == 0,
        procs_per_node=1 + pick % 3,
    )
    return read_workload(path, options).jobs


def run_folder(path: Path, pick: int) -> Any:
    """Read the run in which ``path`` is one file."""
    return read_run(path.parent)


def targets(folder: Path) -> list[Target]:
    """Return every reader with its files; ``folder`` holds what is written on the way."""

    def bytes_of(name: str, write: Callable[[Path], None]) -> bytes:
        write(folder / name)
        return (folder / name).read_bytes()

    jobs = Jobs.build(
        [0, 5, 9],
        [2, 1, 4],
        [60, 30, 45],
        walltime_s=[90, 60, 60],
        user=["ann", "", "bob"],
        mean_power_w=[100, np.nan, 50],
        profiles=PowerProfiles.recorded(np.array([100.0] * 3, np.float32), np.array([3, 0, 0])),
        extra={"energy_quality": np.array(["measured", "", ""], object), "cpus": np.array([1, 2, 3])},
    )
    table = {name: bytes_of(name, lambda path: write_table(path, jobs)) for name in ("a.csv", "a.csv.gz", "a.parquet")}
    slurm = json.dumps({"jobs": [shifted(old(7), 0), shifted(new(8), 2)]}).encode()
    batsim: Mapping[str, Any] = {
        "nb_res": 4,
        "jobs": [{"id": str(i), "subtime": i, "res": 1, "profile": "s", "walltime": 100} for i in (1, 2)],
        "profiles": {"p": {"type": "delay", "delay": 5}, "s": {"type": "composed", "repeat": 3, "seq": ["p", "p"]}},
    }
    write_run(folder / "run", example())
    run = tuple((file.name, file.read_bytes()) for file in sorted((folder / "run").iterdir()))
    record = struct.pack("=QQI4x6d", 2_400_000, 2_400_000, 1, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    series = b"time,price\n2023-01-01T00:00+01:00,50\n2023-01-01T01:00+01:00,-3.5\n2023-01-01T02:00+01:00,7\n"
    return [
        Target("table", tuple(table.items()), workload, workload=True),
        Target("table alone", tuple(table.items()), lambda p, _: read_table(p), workload=True),
        Target(
            "swf", (("a.swf", SWF.encode()), ("b.swf", gzip.compress(SWF.encode(), mtime=0))), workload, workload=True
        ),
        Target("sacct", (("a.psv", SACCT.encode()),), workload, workload=True),
        Target("sacct energies", (("a.psv", SACCT.encode()),), lambda p, _: read_energies(p)),
        Target("slurm json", (("a.json", slurm),), workload, workload=True),
        Target(
            "batsim",
            (("a.json", json.dumps(batsim).encode()),),
            lambda p, _: read_workload(p, kind="batsim").jobs,
            workload=True,
        ),
        Target("pm100", (("a.parquet", pm100(folder).read_bytes()),), workload, workload=True),
        Target("fdata", (("a.parquet", fdata(folder).read_bytes()),), workload, workload=True),
        Target("eurora", (("a.csv", EURORA.encode()),), lambda p, _: read_eurora(p)),
        Target("archer2", (("a.csv", ARCHER2.encode()),), lambda p, _: read_archer2(p)),
        Target("machine", (("m.toml", machine_toml(MACHINE).encode()),), lambda p, _: read_machine(p)),
        Target("policy", (("p.toml", POLICY.encode()),), lambda p, _: load_policy(f"{p}:mine")),
        Target("campaign", (("c.toml", CAMPAIGN.encode()),), lambda p, _: read_campaign(p)),
        Target("live", (("live.toml", LIVE.encode()),), lambda p, _: load_config(p)),
        Target("cap", (("c.csv", b"# c\ntime_s,cap_w\n0,500\n9,inf\n20,400\n"),), lambda p, _: read_cap(p, MACHINE)),
        Target("series", (("p.csv", series),), lambda p, _: read_steps(p, epoch_s=1.6e9)),
        Target("series repaired", (("p.csv", series),), lambda p, _: read_steps(p, repair=True)),
        Target("epoch", (("a.swf", SWF.encode()),), lambda p, _: trace_epoch_s(p, np.array([0.0]))),
        Target("run", run, run_folder),
        Target("unusable", (("unusable.csv", b"line,job_id,reason\n3,7,no nodes\n"),), lambda p, _: read_unusable(p)),
        Target("eacct", (("e.csv", EACCT.encode()),), lambda p, _: read_eacct(p)),
        Target("ear coefficients", (("c.csv", COEFFICIENTS.encode()),), lambda p, _: read_coefficients_csv(p)),
        Target("ear binary", (("c", record),), lambda p, _: read_coefficients_binary(p)),
        Target("ear apps", (("a.csv", APPS.encode()),), lambda p, _: read_apps_csv(p)),
        Target("cwm", (("t.csv", TRAFFIC.encode()),), workload, workload=True),
        Target("perf stat", (("p.csv", PERF.encode()),), lambda p, _: read_perf_stat(p)),
        Target("mpstat", (("m.txt", MPSTAT.encode()),), lambda p, _: read_mpstat(p)),
        Target("counter readings", (("r.csv", READINGS.encode()),), lambda p, _: read_counters_csv(p)),
        Target("activity", (("a.csv", ACTIVITY.encode()),), lambda p, _: read_activity(p)),
        Target("unit factors", (("f.csv", FACTORS.encode()),), lambda p, _: read_unit_factors(p)),
        Target("chip runs", (("c.csv", CHIP_RUNS.encode()),), lambda p, _: read_chip_runs(p)),
        Target("node series", (("n.csv", NODE_SERIES.encode()),), lambda p, _: read_node_series(p)),
    ]


def survives(jobs: Jobs, folder: Path) -> None:
    """Write a job table that was read, and read it back: what a reader accepts, the next verb must accept."""
    for name in ("out.parquet", "out.csv"):
        write_table(folder / name, jobs)
        assert len(read_table(folder / name)) == len(jobs)
    write_swf(folder / "out.swf", jobs)
    pl.DataFrame({"submit_s": jobs.submit_s}).select(pl.all().is_finite().all())
