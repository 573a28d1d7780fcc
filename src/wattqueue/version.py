"""The version of the program and of its files.

In a module of its own, so that whoever writes a file or a page need not import the package, which names the whole API.
"""

__version__ = "0.1.0"
SCHEMA_VERSION = 1
"""Version of every file that WattQueue writes; raised when a column or key changes its meaning."""
