"""The columns that sacct knows, and how to tell a header from other lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wattqueue.errors import InputError
from wattqueue.formats._source import shown

ASK_FOR = (
    *("JobID", "JobName", "User", "Account", "Partition", "Submit", "Start", "End", "ElapsedRaw", "Timelimit", "State"),
    *("NNodes", "AllocCPUS", "ReqMem", "AllocTRES", "ConsumedEnergyRaw", "NodeList"),
)
"""Every column that is of use here."""


def sacct_command(since: str, fields: Sequence[str] = ASK_FOR) -> str:
    """The command that dumps accounting.

    Times as seconds since 1970, since sacct cuts anything longer than 19 characters, a zone among them.
    With steps: at many sites they alone carry energy.
    """
    return f"SLURM_TIME_FORMAT=%s sacct -a --parsable2 -S {since} --format={','.join(fields)}"


SACCT_LINE = sacct_command("2026-01-01")
"""The command as errors quote it."""
HELPFORMAT = """account admincomment alloccpus allocgres allocnodes alloctres associd avecpu avecpufreq avediskread
avediskwrite avepages averss avevmsize blockid cluster comment constraints consumedenergy consumedenergyraw container
cputime cputimeraw dbindex derivedexitcode elapsed elapsedraw eligible end exitcode extra failednode flags gid group
jobid jobidraw jobname layout licenses maxdiskread maxdiskreadnode maxdiskreadtask maxdiskwrite maxdiskwritenode
maxdiskwritetask maxpages maxpagesnode maxpagestask maxrss maxrssnode maxrsstask maxvmsize maxvmsizenode maxvmsizetask
mcslabel mincpu mincpunode mincputask ncpus nnodes nodelist ntasks partition planned plannedcpu plannedcpuraw priority
qos qosraw qosreq reason reqcpufreq reqcpufreqgov reqcpufreqmax reqcpufreqmin reqcpus reqgres reqmem reqnodes reqtres
reservation reservationid reserved resvcpu resvcpuraw restarts segmentsize sluid start state stderr stdin stdout submit
submitline suspended systemcomment systemcpu timelimit timelimitraw totalcpu tresusageinave tresusageinmax
tresusageinmaxnode tresusageinmaxtask tresusageinmin tresusageinminnode tresusageinmintask tresusageintot
tresusageoutave tresusageoutmax tresusageoutmaxnode tresusageoutmaxtask tresusageoutmin tresusageoutminnode
tresusageoutmintask tresusageouttot uid user usercpu wckey wckeyid workdir"""
READ = """jobid jobidraw jobname user uid account partition submit start end elapsed elapsedraw timelimit timelimitraw
state nnodes allocnodes reqnodes nodelist alloccpus ncpus reqmem alloctres consumedenergy consumedenergyraw"""
FIELDS = frozenset(HELPFORMAT.split())
"""The fields that ``sacct --helpformat`` names, Slurm 17 to 26, in small letters."""
WANTED = frozenset(READ.split())
"""The fields that are read; others are passed over."""
FREE_TEXT = ("jobname", "comment", "admincomment", "systemcomment", "workdir", "submitline", "constraints", "extra")
"""Fields that users write themselves: sacct does not escape a separator inside them."""
FIGURES = ("submit", "start", "end", "elapsed", "elapsedraw", "nnodes")
"""Fields that begin with a digit, or say Unknown or None."""
DELIMITERS = "|,\t;^~"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*")


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a dump: names in small letters as written, in order, and what separates them."""

    names: tuple[str, ...]
    delimiter: str
    raw: bytes = b""

    @property
    def free_text(self) -> int | None:
        """The one column that may hold a separator itself; None if there is none, or more than one."""
        found = [i for i, name in enumerate(self.names) if name in FREE_TEXT]
        return found[0] if len(found) == 1 else None


def header_of(columns: str) -> Header:
    """A header from what the user gave to ``sacct --format``. Raises: InputError for an unknown shape."""
    names = tuple(re.sub(r"%-?\d+$", "", name.strip()).lower() for name in columns.split(","))
    if not {"jobid", "jobidraw"} & set(names):
        raise InputError(f"columns {shown(columns)} have no JobID", mend="give what stood after sacct --format=")
    return Header(names, "|")


def parse_header(line: bytes) -> Header | None:
    """The header that a line is, if it is one."""
    if b"jobid" not in line.lower():
        return None
    text = line.decode("utf-8-sig", "replace").rstrip("\r\n")
    for delimiter in DELIMITERS:
        names = [name.strip().strip('"').lower() for name in text.split(delimiter)]
        while names and not names[-1]:  # --parsable ends each line with a separator
            names.pop()
        if len(names) < 2 or not {"jobid", "jobidraw"} & set(names):
            continue
        known = sum(name in FIELDS for name in names)
        if known >= len(names) / 2 and all(NAME.fullmatch(name) for name in names):
            return Header(tuple(names), delimiter, line.rstrip(b"\r\n"))
    return None
