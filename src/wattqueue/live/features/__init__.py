"""Optional features of a controller, and what they keep."""
