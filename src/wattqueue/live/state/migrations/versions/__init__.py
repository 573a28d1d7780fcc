"""One file a revision.

Tables were not numbered before revision 0006: a file of an earlier time has no version, and may have the tables of
any of them. Revisions up to 0006 therefore create and change only what is missing. Each later one finds the tables of
the one before it.
"""
