"""All verbs of all packages spell the same option alike."""

from __future__ import annotations

import inspect
import re

from tests.fuzz.options import Words, callback_of, commands
from wattqueue.options import MOST_WORKERS, options_of
from wattqueue.verbs import Printed

WITHOUT_RESULT: dict[Words, str] = {
    ("live",): "a service: its log says what it does",
    ("serve",): "a service: its page is the result",
    ("live", "serve"): "a service: its page is the result",
    ("live", "install"): "steps on this machine, each printed when it is done",
    ("live", "uninstall"): "steps on this machine, each printed when it is done",
    ("live", "release"): "works with as little of the package as possible; its exit status is the result",
    ("openadr", "follow"): "a service: its log says what it does",
    ("agent", "run"): "a service",
    ("budget", "keep"): "a service: its journal says what it does",
    ("agent", "restore"): "prints problems alone; its exit status is the result",
}
"""Commands that print no result, and what they do instead."""
WRITTEN_ELSEWHERE: dict[Words, str] = {
    ("live", "install"): "writes into the folders of Slurm and systemd: --into, --units",
    ("live", "uninstall"): "removes what install wrote",
}
"""Commands that write, without a file or folder of one's own choice."""


def flags_of(words: Words) -> set[str]:
    """The names of all options of a command."""
    return {flag for parameter in commands()[words] for flag in parameter.opts}


def code_of(words: Words) -> str:
    """The source of a command, and of the private functions of its module that it calls."""
    function = inspect.unwrap(callback_of(words))
    names = vars(inspect.getmodule(function))
    own = [names[name] for name in function.__code__.co_names if name.startswith("_") and name in names]
    return "".join(inspect.getsource(one) for one in (function, *filter(inspect.isfunction, own)))


def test_every_verb_that_prints_a_result_prints_it_as_json_or_not_at_all() -> None:
    printed = {what.flags: what.help for _, what in options_of(Printed)}
    assert set(WITHOUT_RESULT) < set(commands())
    for words, parameters in commands().items():
        found = {tuple(each.opts): each.help for each in parameters if {"--json", "--quiet", "-q"} & {*each.opts}}
        assert found == ({} if words in WITHOUT_RESULT else printed), words


def test_what_is_written_and_how_many_processes_have_one_name() -> None:
    wrote, parallel = set[Words](), set[Words]()
    for words, parameters in commands().items():
        flags, code = flags_of(words), code_of(words)
        if re.search(r"\b_?write\w*\(|\boutput\.perform\(", code):
            wrote.add(words)
            assert ({"-o", "--out"} <= flags) != (words in WRITTEN_ELSEWHERE), words
        assert ("-o" in flags) == ("--out" in flags), words
        if re.search(r"\b(workers|threads)\b", code):
            parallel.add(words)
            (workers,) = (each for each in parameters if "--workers" in each.opts)
            assert workers.max == MOST_WORKERS, words
        assert not flags & {"--threads", "--processes", "--output", "--html", "--markdown"}, words
    assert set(WRITTEN_ELSEWHERE) <= wrote
    assert {("simulate",), ("compare",), ("whatif",), ("demo",)} <= wrote
    assert {("whatif",), ("campaign",)} <= parallel
