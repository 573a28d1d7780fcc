"""Which job-partition entries exist, with which priority?"""
