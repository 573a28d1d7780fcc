"""Which prediction makes the best use of a capped window? Paper 4, sections 5 and 6.4 to 6.5."""
