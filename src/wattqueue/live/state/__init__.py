"""What the controller keeps: an audit log that cannot be changed unseen, and what it has placed."""
