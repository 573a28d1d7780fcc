"""Figures, tables and one-file HTML pages about runs.

Flow of a report:

    load       a run directory, or what a simulation still holds  -> run.RunData (arrays per job, power as steps)
    figures/   one function per picture: RunData  -> figure.Figure (columns in SI units, axes, one sentence)
    payload    Figure  -> JSON for the page
    page/      JavaScript and CSS: one function per kind of picture draws a Figure with ECharts
    document   frame, navigation and sections  -> one HTML file that opens without a network
    plot/      the same Figures as SVG, PDF and PNG by matplotlib, and as CSV

``compare/`` does the same for several runs. Whatever is drawn is in the columns of a ``Figure``, so page, paper
figure and CSV cannot disagree. This package reads files only through ``load`` and writes none; the verbs of ``cli``
do.
"""
