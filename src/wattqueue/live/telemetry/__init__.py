"""What nodes and jobs really draw: a file a source, one small interface; missing data is never zero."""
