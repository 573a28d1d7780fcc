"""Power models on performance monitoring counters (PMC), which predict watts of an application on every socket.

Sockets of one CPU model draw different watts for the same work, because of how they were manufactured. From the
counters of one run of an application on one socket, two models predict its watts on all others:

- power ratio (PR): weights of one reference socket, times the ratio of one benchmark's watts (``models.power_ratio``);
- variability-trained (VT): weights of each socket, trained on a few kernels (``models.variability_trained``).

``events`` has the counters of each micro-architecture, ``counters`` raw counts, ``activity`` the activity ratios,
``weights`` least squares, ``models`` the choice of components and both models. All of them are pure functions of
arrays; ``formats.counters`` reads the files of perf and mpstat.

Reference: Chasapis et al., Power Efficient Job Scheduling by Predicting the Impact of Processor Manufacturing
Variability, ICS 2019, section 2 (paper 2). doi:10.1145/3330345.3330372
"""
