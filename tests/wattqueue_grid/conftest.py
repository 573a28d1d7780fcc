"""Fixtures of other folders of tests: the command line in this process, databases, and a browser."""

from __future__ import annotations

from tests.api.conftest import line
from tests.report.conftest import browser
from tests.store.conftest import mariadb_server, postgresql_server, url

__all__ = ["browser", "line", "mariadb_server", "postgresql_server", "url"]
