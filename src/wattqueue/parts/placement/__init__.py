"""Which free units does it get?"""
