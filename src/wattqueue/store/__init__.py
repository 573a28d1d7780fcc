"""The application database, through SQLAlchemy: SQLite by default, PostgreSQL or MariaDB where a site has one.

``database`` opens an engine from a URL or a file, ``tables`` describes the schema, ``migrations`` creates and upgrades
it, ``applications`` is what the rest of WattQueue uses: profiles of applications, and the record of misnamed jobs.
The tables of the ledger of incentives stand beside them (``wattqueue_grid.incentives.ledger``).
"""
