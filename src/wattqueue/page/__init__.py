"""The operator page: a controller's state, or a recorded run, shown by HTTP and kept up to date.

Flow of a page:

    live       state files of a controller  -> sections (JSON values), with and without names
    feed       sections  -> what each reader has not seen yet, within a budget of bytes
    app        paths, tokens and headers (Starlette)
    server     a bounded number of connections, slow ones dropped (uvicorn)
    assets/    page, style and script; the charts are those of ``wattqueue.report``

This package writes nothing, and runs in a process of its own: nothing that asks a page reaches a controller.
"""
