"""Readers and writers, a file a format."""
