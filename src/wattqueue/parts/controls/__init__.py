"""Controls: actions on running jobs and on nodes, called by period or by event (``run_contracts.Control``)."""
