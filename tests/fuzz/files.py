"""Small valid files of every kind that a verb reads."""

from __future__ import annotations

import json

import numpy as np

from tests.fuzz.readers import ACTIVITY, COEFFICIENTS, EACCT, MPSTAT, SACCT, SWF, TRAFFIC
from wattqueue.live.files.energy_records import EnergyRecord

JOBS = "job_id,submit_s,nodes,walltime_s,runtime_s,user,app,mean_power_w,max_power_w\n" + "".join(
    f"{i},{i * 7 % 50},{1 + i % 4},{100 + i},{20 + i * 3 % 60},u{i % 3},a{i % 2},{150 + i},{200 + i}\n"
    for i in range(12)
)
MACHINE = (
    'name = "m"\ncap_scope = "machine"\n[[partitions]]\nname = "a"\nnodes = 8\nidle_w = 90.0\nmax_w = 300.0\n'
    "frequencies_hz = [2e9, 1e9]\ndvfs_alpha = 2.0\nboot_s = 10.0\n"
    '[[partitions]]\nname = "b"\nnodes = 4\nmax_w = 200.0\n'
)
FED = (
    'name = "fed"\ncap_scope = "machine"\n[[partitions]]\nname = "a"\nnodes = 4\nidle_w = 100.0\nmax_w = 300.0\n'
    '[[supply]]\nname = "rack"\nnodes = "a[1-4]"\nlimit_w = 1000.0\n'
)
LAYERS = '---\n- resource: power\n  layers:\n    - nodes:  # rack\n        - "n[1-4]"\n      count: 600\n'
POLICY = (
    '[one]\norder = "fcfs"\nbackfill = { part = "easy", queue_depth = 5 }\n'
    'estimator = { part = "history-mean", alpha = 1.0 }\n[two]\nledger = { part = "chance", epsilon = 0.1 }\n'
)
CAMPAIGN = (
    'machines = ["machine.toml"]\npolicies = ["easy", "policy.toml:one"]\ncaps = ["none", "80%"]\n'
    'estimators = ["oracle-max"]\n[[workloads]]\ntrace = "jobs.csv"\n'
)
LIVE = (
    'mode = "observe"\nmachine = "machine.toml"\nstate = "state/live.db"\nrun_dir = "state"\npolicy = "easy"\n'
    'cap = "cap.csv"\n[energy]\nprices = "prices.csv"\n'
)
RAN = EnergyRecord(
    job="7", submit_s=1.7955e9, first_s=1.7955e9, start_s=1.7955e9, end_s=1.7955e9 + 60, uid=0, account="phys",
    partition="p1", nodes=2, energy_j=4e4, low_j=3e4, high_j=5e4, label="modelled", source="machine",
).line()  # fmt: skip
PART = (
    "from wattqueue.parts.order.fcfs import Fcfs\n"
    "class Mine:\n    def entries(self, jobs, prediction, machine):\n"
    "        return Fcfs().entries(jobs, prediction, machine)\n"
    "class Other:\n    period_s, events = 10.0, frozenset()\n    def act(self, view):\n        return []\n"
)
DAYS = "job_id,submit_s,nodes,walltime_s,runtime_s,user,mean_power_w,allowed\n" + "".join(
    f"{i},{i * 10_800},{1 + i % 4},7200,{1800 + i * 60},u{i % 3},{150 + i},1\n" for i in range(32)
)
"""Four days from a midnight on, of users who consent."""
CONTRACT = (
    'name = "c"\ncurrency = "EUR"\ntime_zone = "UTC"\nbaseline = "pjm-same-day"\ncommitted_kw = 1\n'
    "[payment]\nper_mwh = 180.0\n[penalty]\nper_mwh = 300.0\n"
)
METER = "# wattqueue meter interval_s=3600 label=measured source=utility\ntime,power_kw\n" + "".join(
    f"2024-01-01T{h:02d}:00Z,{2 if h in (10, 11) else 10}\n" for h in range(24)
)
MODEL = (
    'name = "m"\ncurrency = "EUR"\nfee_per_node_h = 1.0\n[[rewards]]\nindex = "added_wait"\n'
    'kind = "linear"\nrate = 0.05\n'
)
ACCEPTANCE = (
    'name = "a"\norigin = "generated"\nsource = "nobody was asked"\nvalue_per_node_h = 0.10\n'
    "points = [[0.0, 0.0], [1.0, 1.0]]\n"
)
AGENT = (
    'node = "n1"\nstate_dir = "agent"\npowercap = "powercap"\ncpufreq = "cpufreq"\ngpus = false\nperiod_s = 1.0\n'
    'timeout_s = 10.0\n[broker]\nhost = "localhost"\nport = 1\n'
    '[[allow]]\nlimit = "package-*"\nlow = 50.0\nhigh = 200.0\n'
)
ORIGINALS = json.dumps(
    {
        "boot": "BOOT", "powercap": "powercap", "cpufreq": "cpufreq", "gpus": False, "owner": "x", "values": {},
        "lease": {"number": 1, "expires_s": 5.0, "limits": {}},
    }
)  # fmt: skip
OPENADR = (
    'machine = "machine.toml"\nrun_dir = "state"\n[openadr]\nvtn = "https://localhost:1"\nclient_id = "ven"\n'
    'client_secret_file = "secret"\nven_name = "centre"\ntimeout_s = 2.0\nramp_kw_per_s = 1.0\n'
)
EVENT = {
    "id": "e1", "createdDateTime": "2024-01-01T00:00:00Z", "modificationDateTime": "2024-01-01T00:00:00Z",
    "programID": "p1", "priority": 1, "duration": "P9999Y",
    "payloadDescriptors": [{"payloadType": "IMPORT_CAPACITY_LIMIT", "units": "KW"}],
    "reportDescriptors": [{"payloadType": "DEMAND", "frequency": 1, "repeat": -1}],
    "intervalPeriod": {"start": "0001-01-01T00:00:00Z", "duration": "PT1H", "randomizeStart": "PT5M"},
    "intervals": [{"id": 0, "payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [1.5]}]}],
}  # fmt: skip
MEMORY = json.dumps(
    {
        "of": "https://localhost:1 ven", "events": {"e1": {"raw": EVENT, "known_s": 1.0, "first_s": 1.0}},
        "programs": {"p1": {"id": "p1", "programName": "tariff"}}, "sent": {}, "states": {},
    }
)  # fmt: skip


EVENTS = (
    *("cycles", "uops_retired.all", "branches", "uops_executed_port.port_0", "uops_executed_port.port_1"),
    *("uops_executed_port.port_5", "fp_arith_inst_retired.scalar", "L1-dcache-loads", "l2_rqsts.all_rfo"),
    *("l2_rqsts.all_demand_data_rd", "LLC-references", "LLC-misses"),
)
"""Counters that the ratios of a Broadwell need."""
READINGS = f"time_s,active_cores,{','.join(EVENTS)}\n" + "".join(
    f"{t},{min(t, 1) * 15.5},{','.join(str(t * 100) for _ in EVENTS)}\n" for t in range(4)
)
PERF = "".join(f"{t}.0001,S0,16,{4800 * t},,{event},16000000000,100.00,,\n" for t in (1, 2, 3) for event in EVENTS)


STATUS = json.dumps(
    {
        "time_s": 1e9, "mode": "observe", "cap_w": 2000.0, "counted_w": 1500.0, "measured_w": None, "round_s": 0.1,
        "pool_w": {"used": 5, "open": 6, "total": 7}, "jobs": {"running": 3}, "nodes": {"on": 2}, "telemetry": {},
        "telemetry_ok": True, "problems": ["x"], "errors": [], "would": ["start 7"],
        "shared_nodes": {"open": 1, "closed": 0, "counted_w": 50.0},
    }
)  # fmt: skip
WHY = json.dumps(
    {
        "jobs": {"7": ["refused", 2, "no reason", 2e9], "8": ["later", 2e9], "9": ["site", "a limit"]},
        "consent": {"7": [True, "job", 2.0, 3e9, 0.5, None]},
    }
)


def activity(names: tuple[str, ...], sockets: tuple[str, ...]) -> str:
    """A table of activity: several levels of each name on each socket, with watts that differ by socket."""
    rng = np.random.default_rng(3)
    rows = [*ACTIVITY.splitlines()[:2]]
    for name in names:
        for second in range(1, 11):
            level = rng.random(9).round(3)
            level[0] = 16 * level[0] + 1
            for k, socket in enumerate(sockets):
                watts = float(level @ np.linspace(4.0, 0.5, 9)) * (1 + 0.1 * k)
                rows.append(f"{name},0,{socket},{second},{','.join(map(str, level))},{watts:.3f}")
    return "\n".join(rows) + "\n"


def benchmarks() -> str:
    """A learning phase as eacct writes it: six benchmarks at two frequencies."""
    rng = np.random.default_rng(4)
    header = "JOBID;USER;APPID;NODENAME;AVG_CPUFREQ_KHZ;TIME_SEC;CPI;TPI;MEM_GBS;DC_NODE_POWER_W\n"
    return header + "".join(
        f"{i};eve;b{i};n1;{khz};{60 * f:.3f};{rng.uniform(0.4, 4):.3f};{rng.uniform(0, 50):.3f};10;"
        f"{rng.uniform(250, 450) / f:.3f}\n"
        for i in range(6)
        for khz, f in ((2_380_000, 1.0), (1_195_000, 1.6))
    )


FILES = {
    "jobs.csv": JOBS,
    "days.csv": DAYS,
    "trace.swf": SWF,
    "sacct.psv": SACCT,
    "machine.toml": MACHINE,
    "fed.toml": FED,
    "resources.yaml": LAYERS,
    "policy.toml": POLICY,
    "grid.toml": CAMPAIGN,
    "live.toml": LIVE,
    "part.py": PART,
    "cap.csv": "time_s,cap_w\n0,2000\n30,1500\n",
    "physics.toml": 'reference = "batch"\ntable = "cells.csv"\n',
    "cells.csv": "app,partition,watts,time_s\na0,batch,180,100\na1,batch,220,90\n",
    "prices.csv": "time,price\n2024-01-01T00:00:00Z,50\n2024-01-01T01:00:00Z,-20\n",
    "quantiles.csv": "percent,node_w\n0,90\n50,150\n100,280\n",
    "eacct.csv": EACCT,
    "bench.csv": benchmarks(),
    "coefficients.csv": COEFFICIENTS,
    "perf.csv": PERF,
    "readings.csv": READINGS,
    "mpstat.txt": MPSTAT,
    "kernels.csv": activity(("cholesky", "knn"), ("s0", "s1", "s2")),
    "apps.csv": activity(("bt",), ("s1",)),
    "energy.csv": "job,app,unit,end_s,run_s,energy_j\n" + "".join(
        f"{i},a{i % 2},n{i % 3},{i * 40_000},600,{60_000 + 997 * (i % 7)}\n" for i in range(30)
    ),
    "traffic.csv": TRAFFIC,
    "targets.csv": "start_s,end_s,limit,unit,correlation_id\n36000,43200,1500,W,event-1\n",
    "called.csv": "start_s,end_s,limit,unit,correlation_id\n60,120,1100,W,event-1\n",
    "contract.toml": CONTRACT,
    "meter.csv": METER,
    "model.toml": MODEL,
    "acceptance.toml": ACCEPTANCE,
    "consent.toml": "others = true\n[users]\nu1 = false\n",
    "withdrawn.csv": "time_s,user,job_id\n30,u1,\n",
    "agent.toml": AGENT,
    "agent/originals.json": ORIGINALS,
    "openadr.toml": OPENADR,
    "state/openadr.json": MEMORY,
    "state/status.json": STATUS,
    "state/why.json": WHY,
    "state/energy/users/0/jobs/2026-11.jsonl": RAN,
    "secret": "a secret\n",
    "views.jsonl": '{"views": 1}\n',
    "empty": "",
}  # fmt: skip
