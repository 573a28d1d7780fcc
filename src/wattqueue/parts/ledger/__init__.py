"""Ledgers: which watts count against the cap (rule 15 of docs/semantics.md)."""
