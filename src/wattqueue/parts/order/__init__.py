"""Orders: which (job, partition) entries exist, and with which priority they queue (``contracts.Order``)."""
