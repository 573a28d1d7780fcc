"""Sockets that differ, and scheduling on them under a power budget: paper 2, section 4.4, Figures 6 and 7.

The paper's measurements are not public: ``codes`` has the training kernels and applications, ``physics`` draws
what differs between sockets and has their true watts, ``recording`` what perf, mpstat and RAPL would have
shown, ``traffic`` the paper's jobs with power profiles. All of it is generated, never measured.
docs/variability-generator.md lists what is calibrated and what is assumed.

The study: ``knowledge`` draws sockets and makes the tables that policies read, ``trial`` simulates one traffic under
one budget, ``tables`` shows it, ``study`` puts it together. docs/variability-study.md discusses the outcome.
"""
