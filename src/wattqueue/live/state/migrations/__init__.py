"""Alembic migrations of the controller's state, run by ``live.state.database``."""
