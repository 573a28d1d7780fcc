"""Estimators: the watts of each job at each option, and its run time there relative to the trace.

Three families. **Static** ones are called once before the run: ``maximum`` (machine maximum), ``user_figure`` (a column
of the trace), ``ear`` (application profiles), ``oracle_mean`` and ``oracle_max`` (the trace's own watts, which no real
scheduler has). **History** ones learn from the finished jobs of the same user, job by job (``history_mean``,
``history_max``, ``history_quantile``, ``app_mean``, ``last_job``, ``profiled``). **Weekly** ones train a regression on
all finished jobs at the end of each week (``linear``, ``linear_svr``, ``sgd``, ``random_forest``,
``gradient_quantiles``). Each online part implements its prediction twice, once job by job for the event loop and once
vectorised for a whole trace (``replay``); tests hold the two equal.
"""
