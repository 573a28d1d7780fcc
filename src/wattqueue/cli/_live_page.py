"""Serve the operator page of a controller (``wattqueue live serve``)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    config: Annotated[Path, typer.Option("--config", "-c", help="The controller's TOML file.", show_default=False)],
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port in place of the file's; 0: any free one.")
    ] = None,
) -> None:
    """Serve the operator page: what the controller sees and does, by HTTP, read-only; a process of its own."""
    from wattqueue.live.config import load_config
    from wattqueue.live.files.reading import read_secret
    from wattqueue.page.app import Page
    from wattqueue.page.feed import Feed
    from wattqueue.page.live import LiveState
    from wattqueue.page.server import local_names, serve
    from wattqueue.terminal import say

    settings = load_config(config)
    page = settings.page
    token = "" if page.token_file is None else read_secret(page.token_file)
    state = LiveState(settings.run_dir, settings.beat_dir, settings.away_s)
    hosts = (*local_names(page.address), *page.hosts)
    feed = Feed(state.sections)
    shown = Page(lambda _: feed, token, hosts)
    serve(shown, page.address, page.port if port is None else port, page.connections, say)
