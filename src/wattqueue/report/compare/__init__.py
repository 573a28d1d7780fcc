"""Compare runs: groups over seeds, differences with intervals, a paired test, and one page with all of them.

Flow: ``load.load_members`` -> ``groups.grouped`` -> ``table.compare`` -> files (``table``) and page (``document``).
"""
