"""The public check suite: what every part of a policy must satisfy, ours and yours.

``check_part("order", MyOrder)`` (``suite``) runs every check of an axis, ``check_estimator(MyEstimator)``
(``estimator``) those of estimators; ``wattqueue check my.py`` runs them on every part in a file. ``checks_of`` yields
single checks with their names, for pytest's parametrize. A part that fails raises PolicyError with what is wrong, the
class, and a hint.

What is checked: attributes and shapes, purity (arguments stay unchanged), determinism, pickling, empty workloads,
bounded memory, that a simulation can carry out what the part decides and ends the jobs that EASY ends (``work``), that
watts are plausible, and that no decision depends on the future. Each check is bounded in time (``common.within``).
Outcomes are not in the table that parts get (``model/known_jobs.py``), and reading one is an error. What the table
cannot hide are jobs that are submitted later: they are changed (``perturb``), and decisions are compared. A part that
is meant to use the future, an oracle, declares ``knows_future = True``. The suite proves the presence of faults, not
their absence: a leak that shows in one workload of a million may pass.
"""
