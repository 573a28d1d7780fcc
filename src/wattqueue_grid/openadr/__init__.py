"""A virtual end node (VEN) of OpenADR 3.1: events of a grid operator become load targets, and reports go back.

- ``config``: the section ``[openadr]``; ``client``: requests to a VTN (OAuth client credentials, TLS, pages, bounds);
- ``objects``: what a VTN sends, as typed objects; ``times``: durations and the windows of an event's intervals;
- ``rules``: what this site does with an event; ``reading``: events become limits, prices, intensities and alerts;
  ``targets``: limits of several events become load targets that do not overlap, and series;
- ``requests``: which reports an event asks for, and when; ``power_log``: what was measured; ``reports``: their content;
- ``memory``: what outlasts a restart; ``ven``: one VEN, stepped by whoever runs it; ``webhook`` and ``notifier``: two
  ways to be notified; ``service``: a VEN in a thread beside the controller.

Everything that decides is a pure function of an event, the site's rules and the time. docs/adr/0014 says why no library
of PyPI stands behind it.

Reference: OpenADR 3.1.0, OpenAPI document (normative here), enumerations, and user guide (not normative).
"""
