"""The files of a controller's run folder: lease, heartbeat, status, what is withheld."""
