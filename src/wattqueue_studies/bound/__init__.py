"""How far a schedule is from the best possible: a proven bound, the best schedule known, and the policy's own.

``problem`` states what is to be scheduled, ``instance`` the same in whole numbers, rounded so that more is allowed.
``certificate`` turns any prices into a bound (numpy and integers alone); ``columns`` and ``hull`` look for good prices.
``schedules`` looks for good schedules, ``check`` replays one. ``windows`` cuts windows, ``study`` does all of it.
"""
