"""The columns that sacct has, and how a header is distinguished from other lines.

A dump carries no other sign of its format than the line that names its columns. ``parse_header`` recognises that line
by sacct's own field names (``FIELDS``), so that files with banners, several headers, or another separator can be
read, and a table of another program with a column ``jobid`` is not taken for a dump.

``ASK_FOR`` is what a user should dump, ``WANTED`` what is read if present (older names included).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wattqueue.errors import InputError
from wattqueue.formats.source import shown

ASK_FOR = (
    *("JobID", "JobName", "User", "Account", "Partition", "Submit", "Start", "End", "ElapsedRaw", "Timelimit", "State"),
    *("NNodes", "AllocCPUS", "ReqMem", "AllocTRES", "ConsumedEnergyRaw", "NodeList"),
)
"""Every column that is of use here.

In the spelling of sacct(1), in the order in which the command prints them.
"""


def sacct_command(since: str, fields: Sequence[str] = ASK_FOR) -> str:
    """Return the command that dumps accounting.

    Times are seconds since 1970, since sacct cuts anything longer than 19 characters, a zone among them. Steps are
    included: at many sites they alone have energy.

    ``since`` is a date as ``sacct -S`` takes it (``2026-01-01``); ``-a`` includes the jobs of all users, without
    which nobody can tell whether a job had its nodes alone.
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
READ = """jobid jobidraw jobname user uid account wckey partition submit start end elapsed elapsedraw timelimit
timelimitraw state submitline nnodes allocnodes reqnodes nodelist alloccpus ncpus reqmem alloctres consumedenergy
consumedenergyraw"""
FIELDS = frozenset(HELPFORMAT.split())
"""The fields that ``sacct --helpformat`` names, Slurm 17 to 26, in small letters."""
WANTED = frozenset(READ.split())
"""The fields that are read; others are skipped."""
FREE_TEXT = ("jobname", "comment", "admincomment", "systemcomment", "workdir", "submitline", "constraints", "extra")
"""Fields that users write themselves: sacct does not escape a separator inside them."""
FIGURES = ("submit", "start", "end", "elapsed", "elapsedraw", "nnodes")
"""Fields that begin with a digit, or hold Unknown or None."""
DELIMITERS = "|,\t;^~"
"""Separators of sacct --delimiter that are recognised."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*")
"""What a column name can look like; a line of values seldom matches throughout."""


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a dump: names in small letters, in order, and what separates them; ``raw`` is the line itself.

    Two headers are equal if names, separator and line are, which is how a repeated header is recognised.
    """

    names: tuple[str, ...]
    delimiter: str
    raw: bytes = b""

    @property
    def free_text(self) -> int | None:
        """The one column that may hold a separator itself; None if there is none, or more than one."""
        found = [i for i, name in enumerate(self.names) if name in FREE_TEXT]
        return found[0] if len(found) == 1 else None


def header_of(columns: str) -> Header:
    """Return a header from what the user gave to ``sacct --format``. Raises: InputError without a JobID.

    Example: ``JobID%20,User,Elapsed`` gives jobid, user, elapsed: the width after ``%`` is dropped, since --parsable2
    ignores it. The separator is the one of --parsable2, ``|``.
    """
    names = tuple(re.sub(r"%-?[0-9]+$", "", name.strip()).lower() for name in columns.split(","))
    if not {"jobid", "jobidraw"} & set(names):
        raise InputError(f"columns {shown(columns)} have no JobID", hint="give what stood after sacct --format=")
    return Header(names, "|")


def parse_header(line: bytes) -> Header | None:
    """Return the header that a line is, None if it is none.

    A header names a job id, and at least half of its names are fields of sacct.

    The separators of ``DELIMITERS`` are tried in turn; the first that gives two names or more, among them JobID or
    JobIDRaw and at least half of them fields of sacct, is taken. A byte order mark and quotes around names are
    removed. Half of the names may be unknown: sites add columns, and later releases have fields that are not in the
    list.
    """
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
