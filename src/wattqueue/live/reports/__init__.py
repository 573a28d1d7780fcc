"""What a round reports: status, log, metrics, conditions to act on, why jobs wait."""
