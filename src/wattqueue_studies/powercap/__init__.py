"""Which prediction makes the best use of a capped window? Paper 4, sections 5 and 6.4 to 6.5.

``prepare`` generates a long trace and cuts busy windows out of it, ``cell`` simulates one window under one cap and one
policy, ``study`` runs the campaign and compares it with ``claims.toml``; ``calibrate`` gives chance ledgers their
parameters. docs/powercap.md discusses the outcome.
"""
