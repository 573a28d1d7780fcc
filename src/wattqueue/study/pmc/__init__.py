"""PMC power models on generated chips and on real nodes: paper 2, sections 2 and 4.3.

``scores`` compares the models with the truth on one draw of sockets (``study.sockets``), ``budget`` fills a power
budget at one instant, ``nodes`` checks eq. 1 on two real jobs, ``tables`` and ``pictures`` show it, ``study`` puts it
together. docs/pmc-study.md discusses the outcome.
"""
