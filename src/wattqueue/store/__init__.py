"""Application database, audit and ledgers, through SQLAlchemy."""
