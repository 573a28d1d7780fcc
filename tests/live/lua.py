"""job_submit.lua under the Lua library that slurmctld loads, without a Slurm: one call is some ten microseconds."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

LIBRARIES = ("liblua5.4.so.0", "liblua5.3.so.0", "liblua5.1.so.0")
STUB = """
slurm = { SUCCESS = 0, ERROR = -1, users = {}, errors = {} }
function slurm.log_user(text) table.insert(slurm.users, text) end
function slurm.log_error(...) table.insert(slurm.errors, string.format(...)) end
io.popen, os.execute, dofile = nil, nil, nil
local clock = os.time
function os.time() return NOW or clock() end
function submission(jd, parts, uid)
  local code = slurm_job_submit(jd, parts, uid)
  return table.concat({ code, tostring(jd.licenses), tostring(jd.max_nodes), tostring(jd.priority) }, "|")
end
"""
NO_VAL = 4294967294


class Answer(NamedTuple):
    """What the script made of a submission."""

    code: int
    watts: int
    """-1 for none."""
    most_nodes: int
    held: bool


@functools.cache
def library() -> ctypes.CDLL | None:
    """The first of the libraries that is installed; None where there is none."""
    for name in LIBRARIES:
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        found.luaL_newstate.restype = ctypes.c_void_p
        found.lua_tolstring.restype = ctypes.c_char_p
        return found
    return None


class Lua:
    """A state of Lua with the script loaded as slurmctld loads it."""

    def __init__(self, script: str) -> None:
        lua = library()
        assert lua is not None
        self.lua, self.state = lua, ctypes.c_void_p(lua.luaL_newstate())
        lua.luaL_openlibs(self.state)
        self.run(STUB)
        self.run(script)

    def close(self) -> None:
        self.lua.lua_close(self.state)

    def run(self, chunk: str) -> str:
        """Run a chunk; returns its first result as text, empty for nil. Raises RuntimeError with Lua's message."""
        call = [ctypes.c_int(number) for number in (0, 1, 0)]
        failed = self.lua.luaL_loadstring(self.state, ctypes.c_char_p(chunk.encode()))
        if not failed and hasattr(self.lua, "lua_pcallk"):
            failed = self.lua.lua_pcallk(self.state, *call, ctypes.c_ssize_t(0), None)
        elif not failed:
            failed = self.lua.lua_pcall(self.state, *call)
        text = self.lua.lua_tolstring(self.state, ctypes.c_int(-1), None) or b""
        self.lua.lua_settop(self.state, ctypes.c_int(-2))
        if failed:
            raise RuntimeError(text.decode())
        return str(text.decode())

    def submit(self, job: Mapping[str, Any], parts: Mapping[str, Any], uid: int = 1000) -> Answer:
        """Submit a job with these fields to partitions with these."""
        fields = self.run(f"return submission({literal(job)}, {literal(parts)}, {uid})").split("|")
        code, licences, most, priority = fields
        watts = int(licences.removeprefix("watts:")) if licences.startswith("watts:") else -1
        return Answer(int(float(code)), watts, -1 if most == "nil" else int(float(most)), priority in ("0", "0.0"))

    def errors(self) -> Sequence[str]:
        """What slurmctld's log got."""
        return self.run('return table.concat(slurm.errors, "\\n")').splitlines()


def literal(value: Any) -> str:
    """A value as Lua writes it: numbers, texts, and tables of them."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"[{literal(key)}]={literal(one)}" for key, one in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
