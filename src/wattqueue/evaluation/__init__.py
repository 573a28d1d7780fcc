"""How well can a job's watts be predicted on a trace? ``wattqueue predict eval``, ``wattqueue.predict``, the studies.

``evaluate`` walks estimators over a trace (each job is predicted at its submission from the jobs that had ended),
``scores`` measures the predictions, ``evaluation`` does both for a user's own workload, and ``page`` shows them.
"""
