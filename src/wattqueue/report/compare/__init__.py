"""Runs side by side: groups over seeds, differences, intervals, a paired test, one page with all of them."""
