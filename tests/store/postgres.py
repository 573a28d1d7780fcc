"""A real PostgreSQL for tests: a cluster in a temporary folder, ended with the test session."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def tools() -> Path | None:
    """The folder of initdb and postgres: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return debian[-1].parent if debian else None


def missing() -> str | None:
    """Why no PostgreSQL can be started here; None where it can."""
    if tools() is None:
        return "needs PostgreSQL (apt-get install postgresql)"
    if os.getuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return "PostgreSQL does not run as root, and there is no user postgres"
    return None


@contextmanager
def server() -> Iterator[str]:
    """A running server's URL."""
    folder = Path(tempfile.mkdtemp(prefix="wattqueue-pg-"))
    data = folder / "data"
    as_root = os.getuid() == 0
    user = "postgres" if as_root else pwd.getpwuid(os.getuid()).pw_name
    before = ["runuser", "-u", "postgres", "--"] if as_root else []
    if as_root:
        shutil.chown(folder, "postgres")
    folder.chmod(0o755)
    binaries = tools()
    assert binaries is not None
    process = None
    try:
        initdb: list[str | Path] = [binaries / "initdb", "-D", data, "-A", "trust", "-U", user, "--no-sync"]
        initdb += ["--locale=C", "--encoding=UTF8"]
        subprocess.run([*before, *initdb], check=True, stdout=subprocess.DEVNULL, cwd=folder)
        port = free_port()
        options = ["-h", "127.0.0.1", "-p", str(port), "-k", str(folder), "-c", "fsync=off"]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen([*before, binaries / "postgres", "-D", data, *options], stderr=log, cwd=folder)
        _wait(port, process)
        yield f"postgresql://{user}@127.0.0.1:{port}/postgres"
    finally:
        if process is not None:
            process.terminate()
            process.wait(180)
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port of this host that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    import psycopg

    until = time.monotonic() + 180
    while time.monotonic() < until:
        assert process.poll() is None, "PostgreSQL ended at once"
        try:
            psycopg.connect(host="127.0.0.1", port=port, user="postgres", dbname="template1", connect_timeout=2).close()
        except psycopg.OperationalError as error:
            if "role" in str(error):
                return
            time.sleep(0.05)
        else:
            return
    raise AssertionError("PostgreSQL did not come up in 30 s")
