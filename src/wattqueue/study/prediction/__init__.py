"""How well can a job's watts be predicted? Paper 4, section 6.3, and ``wattqueue predict eval``.

``evaluate`` walks estimators over a trace (each job is predicted at its submission from the jobs that had ended) and
``scores`` measures the predictions; ``page`` shows them. These serve ``predict eval`` on users' own traces as well as
the study: ``study`` runs it, ``text`` and ``study_page`` show it beside ``published``. docs/prediction.md discusses it.
"""
