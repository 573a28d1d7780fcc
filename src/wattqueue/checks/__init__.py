"""Checks that every part must pass, for our own and for yours.

``wattqueue.checks.estimator.check_estimator(MyEstimator)`` runs all of an axis; the functions named
``check_...`` are its single steps. A part that fails raises PolicyError with what is wrong and how to
mend it.
"""
