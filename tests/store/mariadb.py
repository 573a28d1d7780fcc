"""A real MariaDB for tests: a server in a temporary folder, ended with the test session."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.store.postgres import free_port

PASSWORD = "pass-of-tests"  # noqa: S105  of a server that only this host can reach, for as long as the tests run


def missing() -> str | None:
    """Why no MariaDB can be started here; None where it can."""
    if shutil.which("mariadbd") is None or shutil.which("mariadb-install-db") is None:
        return "needs MariaDB (apt-get install mariadb-server)"
    return None


@contextmanager
def server() -> Iterator[str]:
    """A running server's URL, with a user who may create databases."""
    folder = Path(tempfile.mkdtemp(prefix="wattqueue-sql-"))
    data, temporary, socket = folder / "data", folder / "tmp", folder / "sql.sock"
    temporary.mkdir()
    account = pwd.getpwuid(os.getuid()).pw_name
    common = [f"--datadir={data}", f"--tmpdir={temporary}", f"--user={account}"]
    process = None
    try:
        quiet = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        install = ["mariadb-install-db", "--no-defaults", *common, *quiet]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
        port = free_port()
        options = [f"--socket={socket}", f"--port={port}", "--bind-address=127.0.0.1", f"--pid-file={folder}/pid"]
        small = ["--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=16M"]
        with (folder / "log").open("w") as log:
            started = ["mariadbd", "--no-defaults", *common, *options, *small]
            process = subprocess.Popen(started, stderr=log, stdout=log, cwd=folder)
        client = ["mariadb", "--no-defaults", "-uroot", f"--socket={socket}"]
        grant = f"GRANT ALL ON *.* TO tests@localhost IDENTIFIED BY '{PASSWORD}'"
        _wait([*client, "-e", grant], process)
        yield f"mariadb://tests:{PASSWORD}@127.0.0.1:{port}/mysql"
    finally:
        if process is not None:
            process.kill()  # its data are thrown away; an orderly end would take seconds
            process.wait(180)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(command: list[str], process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 180
    while time.monotonic() < until:
        assert process.poll() is None, "MariaDB ended at once"
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError("MariaDB did not come up in 30 s")
