"""Fixtures of other folders of tests: the command line in this process, and databases."""

from __future__ import annotations

from tests.api.conftest import line
from tests.store.conftest import mariadb_server, postgresql_server, url

__all__ = ["line", "mariadb_server", "postgresql_server", "url"]
