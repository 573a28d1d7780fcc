"""Power models on performance monitoring counters (PMC), and their study: paper 2, sections 2 and 4.3.

Sockets of one CPU model draw different watts for the same work, because of how they were manufactured. From the
counters of one run of an application on one socket, two models predict its watts on all others:

- power ratio (PR): weights of one reference socket, times the ratio of one benchmark's watts (``models.power_ratio``);
- variability-trained (VT): weights of each socket, trained on a few kernels (``models.variability_trained``).

``events`` has the counters of each micro-architecture, ``activity`` the activity ratios,
``weights`` least squares, ``models`` the choice of components and both models. All of them are pure functions of
arrays; ``readings`` and ``recording`` read files.

The study: ``tables`` compares the models with the truth on one draw of sockets (``wattqueue_studies.sockets``),
``budget`` fills a power budget at one instant, ``nodes`` checks eq. 1 on two real jobs, and shows it,
``study`` puts it together. docs/pmc-study.md discusses the outcome.

Reference: Chasapis et al., Power Efficient Job Scheduling by Predicting the Impact of Processor Manufacturing
Variability, ICS 2019, section 2 (paper 2). doi:10.1145/3330345.3330372
"""
