"""Runs from plain values: a task, its inputs, its result, and the record of it in a folder.

The simulator takes tables and objects. Here they are read from what a user names: files, generators, machines and
policies.
"""
