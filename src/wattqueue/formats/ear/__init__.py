"""Files of the Energy Aware Runtime: tables of applications, and its accounting (eacct)."""
