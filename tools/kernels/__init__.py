"""Machine code of the kernels for a wheel: ``python -m tools.kernels build`` (docs/adr/0025).

``interface.json`` says which types each entry takes; ``build.py`` compiles them to position-independent objects for
each level of x86-64, ``shim.py`` writes the C functions that Python calls, and the linker makes one library a level.
"""
