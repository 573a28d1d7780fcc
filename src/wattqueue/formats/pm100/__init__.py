"""PM100: jobs of Marconi100 with the watts of their nodes."""
