"""How far policies are from a proven bound, and what of it is lost by what: knowledge, reservations, order.

``claims.toml`` and ``cases`` have the design, fixed before the first run; ``study`` runs and reports it.
docs/gap-study.md discusses the outcome.
"""
