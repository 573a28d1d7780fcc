"""Generated chips, counters and watts for paper 2, whose measurements are not public.

``chips`` draws what differs between sockets, ``codes`` has the training kernels and applications, ``physics`` their
true watts on a chip, ``recording`` what perf, mpstat and RAPL would have shown, ``traffic`` the paper's jobs with power
profiles. All of it is generated, never measured. docs/variability-generator.md lists what is calibrated and what is
assumed.
"""
