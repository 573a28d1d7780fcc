"""Which hosts may be reached without encryption: this one alone."""

from __future__ import annotations

from ipaddress import ip_address

HINT = "only this host may be reached without encryption: others could read what is sent, and answer in its place"


def is_loopback(host: str) -> bool:
    """Whether a host is this one, which no other host can reach or listen to: ``localhost``, 127.0.0.0/8 or ::1."""
    name = host.strip().strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
