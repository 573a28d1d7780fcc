"""The ``plan`` study: how many nodes fit under the limits of the power domains, and what they cost users.

Data flow, one module per step:

    prepare.prepare   read and check workload, machine, breaker, quantiles           -> PlanSetup
    growth            the machine with N nodes of the partition that grows, jobs for it, nodes by their stated watts
    trial.Trials      simulate N nodes without limits and under the lowest limits that users accept -> Trial
    ratios, risk      what jobs draw over what was counted, and how often domains are then above their limits
    search.climb      the most nodes that pass, from below
    answer.answer     all of it, with the rehearsal of a domain derated for 8 hours  -> PlanAnswer
    text, page        sentences, tables, page and files

Two properties hold by construction, since a trial of N nodes knows nothing of the limits that are asked for: higher
limits never give fewer nodes, and higher watts never give more.

The package can be called: ``wattqueue.plan(jobs, machine)`` is the public function of that name, defined in
``wattqueue.api.plan``.
"""

from wattqueue.callable_package import callable_package

callable_package(__name__, "wattqueue.api.plan")  # wattqueue.plan(...) is public, and so is this package's name
