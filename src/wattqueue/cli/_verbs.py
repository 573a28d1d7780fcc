"""Verbs of all packages, their modules and their lines of ``wattqueue --help``: made by ``python -m tools.verbs``."""

from __future__ import annotations

VERBS = {
    "agent": (
        "wattqueue_agent.cli",
        "Run the node agent: read power, and set limits that the controller asks for.",
    ),
    "apps": (
        "wattqueue.cli.apps",
        "Applications: learn EAR coefficients, keep application metrics in a database, list them.",
    ),
    "bound": (
        "wattqueue_studies.cli.bound",
        "Prove a bound on every schedule; compare it with the best schedule known and the policy's own.",
    ),
    "budget": (
        "wattqueue.cli.budget",
        "Energy budgets: what is used and set aside of yours, and what the period will end with; set one.",
    ),
    "campaign": (
        "wattqueue.cli.campaign",
        "Run a grid of workloads x machines x policies x estimators x caps x seeds, on one machine or on many.",
    ),
    "check": (
        "wattqueue.cli.check",
        "Run the public checks on parts of your own.",
    ),
    "compare": (
        "wattqueue.cli.compare",
        "Compare runs side by side as a table, compare.csv, compare.json and one page.",
    ),
    "demo": (
        "wattqueue.cli.demo",
        "Simulate one generated week of a 980-node machine: EASY uncapped, and EASY under a 35 % cap.",
    ),
    "doctor": (
        "wattqueue.cli.doctor",
        "List what WattQueue can read and control from this host, and what each missing item means.",
    ),
    "flux": (
        "wattqueue_flux.cli",
        "Run WattQueue as the scheduler of a Flux instance: where its module lies, and a trial on emulated nodes.",
    ),
    "import": (
        "wattqueue.cli.import_",
        "Read a site's own data (sacct, Slurm JSON, PM100, F-DATA, SWF, Batsim) into a job table.",
    ),
    "incentives": (
        "wattqueue_grid.cli.incentives",
        "Reward users whose jobs made room for the grid: settle events, state rewards, design them, offer power.",
    ),
    "job": (
        "wattqueue.cli.job",
        "Say what energy a job used, what it cost, and how much of its wait was for watts.",
    ),
    "jobs": (
        "wattqueue.cli.jobs",
        "Sum the energy of a user's, project's, account's or all jobs of a month, with cost, carbon, avoidable waits.",
    ),
    "live": (
        "wattqueue.cli.live",
        "Control a real Slurm under a power cap, or only observe it.",
    ),
    "machine": (
        "wattqueue.cli.machine",
        "Machine files: list the catalogue, show one, draft one from jobs.",
    ),
    "nightly": (
        "wattqueue_studies.cli.nightly",
        "Say what the power cap cost yesterday, how far that was from the best, and what other rows would have done.",
    ),
    "openadr": (
        "wattqueue_grid.cli.openadr",
        "Take OpenADR 3.1 events of a grid operator as load targets, prices and carbon intensities.",
    ),
    "pick": (
        "wattqueue_studies.cli.pick",
        "Forecast the next day of a queue under many rows, and say which would be best; nothing is switched.",
    ),
    "plan": (
        "wattqueue.cli.plan",
        "How many more nodes fit under the limits of the power domains, and what they would cost users.",
    ),
    "plot": (
        "wattqueue.cli.plot",
        "Draw the figures of a run, or of several overlaid, as SVG and PDF, with the data of each as CSV.",
    ),
    "pmc": (
        "wattqueue_studies.cli.pmc",
        "Predict the watts of an application on every socket from performance counters.",
    ),
    "policies": (
        "wattqueue.cli.policies",
        "Policies: list the published ones with their eight parts and source, or show one.",
    ),
    "predict": (
        "wattqueue.cli.predict",
        "Evaluate how well the power of jobs can be predicted.",
    ),
    "replay": (
        "wattqueue.cli.replay",
        "Replay a recorded schedule: places as they were, starts as early as these are free, no policy.",
    ),
    "report": (
        "wattqueue.cli.report",
        "Write report.html of a run: one file that opens without a network.",
    ),
    "rerun": (
        "wattqueue.cli.rerun",
        "Repeat a recorded run, and compare its files byte by byte.",
    ),
    "serve": (
        "wattqueue.cli.serve",
        "Show a simulated run on the operator page, at any instant: a time slider takes the place of the clock.",
    ),
    "settle": (
        "wattqueue_grid.cli.settle",
        "Settle demand-response events: baseline, delivered power, payment and penalty by interval.",
    ),
    "simulate": (
        "wattqueue.cli.simulate",
        "Replay a workload on a machine under a policy and a power cap.",
    ),
    "study": (
        "wattqueue_studies.cli.study",
        "Reproduce a paper's evaluation: its machine, its workload, published values beside ours.",
    ),
    "whatif": (
        "wattqueue.cli.whatif",
        "Compare power caps: waits, risk, cost and carbon of each, and the lowest cap that the data certify as safe.",
    ),
    "why": (
        "wattqueue.cli.why",
        "Say what held a job of a simulated run back: nodes, the cap, a power domain, or its turn.",
    ),
}
"""Module and summary of each verb, by the name it is called with."""
