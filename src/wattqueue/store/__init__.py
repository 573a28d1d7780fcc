"""The application database, through SQLAlchemy: SQLite by default, PostgreSQL or MariaDB where a site has one.

``database`` opens an engine from a URL or a file, ``tables`` describes the schema, ``migrations`` creates and upgrades
it, ``applications`` is what the rest of WattQueue uses: profiles of applications, and the record of misnamed jobs.
``incentives`` is the ledger of what users got for consent to demand response, in tables beside them.
"""
