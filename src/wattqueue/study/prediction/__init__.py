"""How well can a job's watts be predicted? Paper 4, section 6.3, and ``wattqueue predict eval``."""
