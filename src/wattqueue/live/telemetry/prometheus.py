"""Read node power from Prometheus' HTTP API, with the time of the scrape behind each value.

An instant query repeats a series' last value for five minutes after its exporter has died, with the time of the
*query*. Taken as it stands, a dead node would look measured, and its power would be that of before. So a second query
asks for the time of the newest scrape (``timestamp(series)``), and that is the sample's time.


Reference: Prometheus, HTTP API v1, instant queries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wattqueue.formats.json_text import read_json
from wattqueue.live.telemetry.base import PowerSample, Reading

if TYPE_CHECKING:
    import httpx

# A plain series, with or without matchers: the only kind of query whose scrape time Prometheus knows.
PLAIN = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^{}]*\})?")


@dataclass
class Prometheus:
    """``query`` gives watts, one series per node, with the node's name in ``label`` (a port after it is dropped).

    ``fresh_query`` gives the time of the newest scrape behind each of them, by the same label. For a plain series it is
    ``timestamp(QUERY)``. A computed value (``sum by``, ``rate``) has no scrape time of its own, so it needs its own
    query; without one the source gives no sample. ``token`` is sent as a bearer token.
    """

    url: str
    query: str
    label: str = "instance"
    fresh_query: str = ""
    timeout_s: float = 2.0
    token: str = ""
    name: str = "prometheus"
    resolution_w: float = 1.0
    _client: httpx.Client | None = field(default=None, repr=False)

    def read(self, now_s: float) -> Reading:
        """Run both queries. A node without a scrape time has no sample; any failure is a problem, never an error."""
        fresh = self.fresh_query or (f"timestamp({self.query})" if PLAIN.fullmatch(self.query) else "")
        if not fresh:
            return Reading({}, ("fresh_query is needed: the age of a computed value is not known",))
        try:
            values, times = self._ask(self.query), self._ask(fresh)
        except Exception as error:  # noqa: BLE001 - whatever the network says: no sample, and why
            return Reading({}, (f"{type(error).__name__}: {str(error)[:160]}",))
        samples = {node: PowerSample(v, times[node], self.name) for node, v in values.items() if node in times}
        return Reading(samples, () if samples else ("the query gave no series",))

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self, query: str) -> dict[str, float]:
        """Run one instant query; returns values by node. Raises whatever HTTP or parsing raises."""
        import httpx

        if self._client is None:
            headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
            # a proxy from the environment must not see the traffic with the site's own monitoring
            self._client = httpx.Client(timeout=self.timeout_s, headers=headers, trust_env=False)
        answer = self._client.get(f"{self.url.rstrip('/')}/api/v1/query", params={"query": query})
        answer.raise_for_status()
        return read_vector(read_json(answer.content), self.label)


def read_vector(body: Any, label: str) -> dict[str, float]:
    """Return the values by node of an instant query's answer. Raises ValueError for any other answer.

    Series without the label are left out: an aggregate over all nodes is not a node.
    """
    try:
        if body["status"] != "success" or body["data"]["resultType"] != "vector":
            raise ValueError(f"no vector: {str(body)[:120]}")
        rows = body["data"]["result"]
        return {str(r["metric"][label]).partition(":")[0]: float(r["value"][1]) for r in rows if label in r["metric"]}
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not an answer of Prometheus: {str(body)[:120]}") from error
