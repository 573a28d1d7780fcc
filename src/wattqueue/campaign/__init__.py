"""Many runs: on one machine or on many, restartable, the same bytes whichever way."""
