"""What energy budgets do to waits, fairness and energy, and what users gain who choose a frugal clock."""
