"""Node power from Prometheus' HTTP API. An instant query repeats a value for five minutes: its true time is asked too.

Reference: Prometheus, HTTP API v1, instant queries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wattqueue.live.telemetry.base import Reading, Sample

if TYPE_CHECKING:
    import httpx

PLAIN = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^{}]*\})?")


@dataclass
class Prometheus:
    """``query`` gives watts, one series a node, the node's name in ``label`` (a port after it is dropped).

    ``fresh_query`` gives the time of the newest scrape behind each of them; for a plain series it
    is ``timestamp(QUERY)``, any other query needs its own. ``token`` is sent as a bearer token.
    """

    url: str
    query: str
    label: str = "instance"
    fresh_query: str = ""
    timeout_s: float = 2.0
    token: str = ""
    name: str = "prometheus"
    _client: httpx.Client | None = field(default=None, repr=False)

    def read(self, now_s: float) -> Reading:
        fresh = self.fresh_query or (f"timestamp({self.query})" if PLAIN.fullmatch(self.query) else "")
        if not fresh:
            return Reading({}, ("fresh_query is needed: the age of a computed value cannot be told",))
        try:
            values, times = self._ask(self.query), self._ask(fresh)
        except Exception as error:  # noqa: BLE001 - whatever the network says: no sample, and why
            return Reading({}, (f"{type(error).__name__}: {str(error)[:160]}",))
        samples = {node: Sample(v, times[node], self.name) for node, v in values.items() if node in times}
        return Reading(samples, () if samples else ("the query gave no series",))

    def close(self) -> None:
        """Let go of the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self, query: str) -> dict[str, float]:
        import httpx

        if self._client is None:
            headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
            # a proxy of the environment is not for the site's own monitoring
            self._client = httpx.Client(timeout=self.timeout_s, headers=headers, trust_env=False)
        answer = self._client.get(f"{self.url.rstrip('/')}/api/v1/query", params={"query": query})
        answer.raise_for_status()
        return read_vector(answer.json(), self.label)


def read_vector(body: Any, label: str) -> dict[str, float]:
    """Values by node of an instant query's answer. Raises ValueError for any other answer."""
    try:
        if body["status"] != "success" or body["data"]["resultType"] != "vector":
            raise ValueError(f"no vector: {str(body)[:120]}")
        rows = body["data"]["result"]
        return {str(r["metric"][label]).partition(":")[0]: float(r["value"][1]) for r in rows if label in r["metric"]}
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not an answer of Prometheus: {str(body)[:120]}") from error
