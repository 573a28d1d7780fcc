"""The pictures of a report, a file each."""
