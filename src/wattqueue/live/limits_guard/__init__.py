"""The only process that may publish limits of nodes; it trusts nothing that it did not read itself (ADR 0024).

``publisher`` decides what each node is asked for and answers requests; ``messages`` reads what agents state and writes
what they are asked for; ``settings`` is its own configuration; ``client`` is the side of the planner and of the guard.
The process (``wattqueue_agent.limits_guard``) adds the connection to the broker. ``tests/architecture`` counts what it
imports.
"""
