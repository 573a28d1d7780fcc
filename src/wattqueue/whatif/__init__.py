"""The ``whatif`` study: simulate one workload under a series of power caps and draw conclusions from the runs.

Data flow, one module per step:

    prepare.prepare    read and check workload, machine, caps, policies, price series  -> Setup
    prepare.run_caps   run every configuration without a cap and under every cap (grid, run)  -> RunSummary
    analysis.analyse   knee, lowest safe cap, who waits longer, bills  -> CapAnalysis
    text, figures, page, document    print, draw and write the answer

A *configuration* is a (policy, estimator) pair. A *row* is the index of a cap; rows are sorted by watts, lowest
first. ``text`` and ``figures`` must read the same fields of ``CapAnalysis``, so that terminal, page and files cannot
disagree.

The package can be called: ``wattqueue.whatif(jobs, machine, cap="60%..100%")`` is the public function of that name,
defined in ``wattqueue.api.whatif``.
"""

from wattqueue.callable_package import callable_package

callable_package(__name__, "wattqueue.api.whatif")  # wattqueue.whatif(...) is public, and so is this package's name
