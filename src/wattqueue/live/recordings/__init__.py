"""Record what a policy's session saw and decided, replay it, and read schedules from recordings."""
