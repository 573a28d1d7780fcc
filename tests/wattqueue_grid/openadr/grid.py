"""A VTN as a separate process, the business logic behind it, and the VEN under test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from tests.live.procs import MARKER, end_all
from tests.live.slurmlab import free_ports, wait_for
from wattqueue_grid.openadr.client import VtnClient
from wattqueue_grid.openadr.section import OpenADRSection, SiteRules
from wattqueue_grid.openadr.ven import Ven

VTN = Path(__file__).parents[3] / "examples" / "openadr" / "vtn.py"
SECRET = "a-secret-that-nobody-may-see"  # noqa: S105 - of a test
KW = 1e3
Json = dict[str, Any]


class Grid:
    """A VTN that validates all it gets and gives, and a client of the role of business logic."""

    def __init__(self, folder: Path, document: Path, *more: str, scheme: str = "http") -> None:
        self.folder = folder
        self.env = {**os.environ, MARKER: str(folder)}
        (self.port,) = free_ports(1)
        self.url = f"{scheme}://localhost:{self.port}"
        clients = folder / "clients.json"
        clients.write_text(json.dumps({"ven": [SECRET, "ven"], "bl": ["bl-secret", "bl"]}))
        self.argv = [sys.executable, str(VTN), "--port", str(self.port), "--document", str(document)]
        self.argv += ["--clients", str(clients), *more]
        self.http = httpx.Client(base_url=self.url, verify=False, timeout=180.0, trust_env=False)  # noqa: S501
        self.token = ""
        self.start()

    def start(self) -> None:
        with (self.folder / "vtn.log").open("ab") as log:
            self.process = subprocess.Popen(self.argv, stdout=log, stderr=log, env=self.env)
        wait_for("the VTN", self.answers, 60.0)
        self.start_token()

    def start_token(self) -> None:
        form = {"grant_type": "client_credentials", "client_id": "bl", "client_secret": "bl-secret"}
        self.token = self.http.post("/auth/token", data=form).raise_for_status().json()["access_token"]

    def answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "vtn.log").read_text()
        with suppress(httpx.HTTPError):
            return self.http.get("/_objects").is_success
        return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(180)

    def close(self) -> None:
        self.http.close()
        end_all(str(self.folder))
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(180)

    # -- business logic ------------------------------------------------------------------------
    def ask(self, method: str, path: str, body: Json | None = None) -> Any:
        answer = self.http.request(method, path, json=body, headers={"Authorization": f"Bearer {self.token}"})
        assert answer.is_success, answer.text
        return answer.json()

    def program(self, name: str = "tariff", **more: Any) -> str:
        return str(self.ask("POST", "/programs", {"programName": name, **more})["id"])

    def event(self, program: str, **body: Any) -> str:
        return str(self.ask("POST", "/events", {"programID": program, **body})["id"])

    def change(self, event: str, **body: Any) -> None:
        self.ask("PUT", f"/events/{event}", body)

    def delete(self, event: str) -> None:
        self.ask("DELETE", f"/events/{event}")

    def reports(self) -> list[Json]:
        return [one for one in self.objects() if one["objectType"] == "REPORT"]

    # -- what only a test asks -----------------------------------------------------------------
    def objects(self) -> list[Json]:
        return list(self.http.get("/_objects").json())

    def violations(self) -> list[str]:
        return list(self.http.get("/_violations").json())

    def requests(self) -> list[Json]:
        return list(self.http.get("/_requests").json())

    def delivered(self) -> list[Json]:
        return list(self.http.get("/_delivered").json())

    def fault(self, **fault: Any) -> None:
        self.http.put("/_faults", json=[fault] if fault else [])

    def force(self, **objects: Json) -> None:
        """Put objects into the VTN as they are, the document's rules or not."""
        self.http.put("/_objects", json=objects)

    def forget_tokens(self) -> None:
        self.http.delete("/_tokens")


OPENED: list[VtnClient] = []
"""Clients of the test that runs; closed after it."""


def client(url: str, secret: str = SECRET, **more: Any) -> VtnClient:
    """A client of a VTN."""
    OPENED.append(VtnClient(section(url, **more), secret))
    return OPENED[-1]


def section(url: str, **more: Any) -> OpenADRSection:
    """The configuration of a VEN of a VTN."""
    known = {"vtn": url, "client_id": "ven", "client_secret_file": Path("unused"), "ven_name": "hpc-centre"}
    return OpenADRSection.model_validate({**known, "timeout_s": 60.0, **more})


def rules(**more: Any) -> SiteRules:
    """A site of 100 kW at most, 10 kW idle."""
    known: Json = {"ven_name": "hpc-centre", "maximum_w": 100 * KW, "idle_w": 10 * KW, "emergency_w": 20 * KW}
    return SiteRules(**{**known, **more})


def ven(url: str, folder: Path, site: SiteRules | None = None, **more: Any) -> Ven:
    """A VEN with its memory in a folder."""
    asked = client(url, **more)
    return Ven(asked, asked.section, site or rules(), folder)


def date(time_s: float) -> str:
    """An instant as events state it."""
    return datetime.fromtimestamp(time_s, UTC).isoformat().replace("+00:00", "Z")


def soon(after_s: float = 60.0) -> float:
    """A whole second, so long from now."""
    return float(round(time.time() + after_s))


def limit(
    kind: str, *values: Any, units: str | None = "KW", start_s: float, duration: str = "PT1H", **more: Any
) -> Json:
    """An event with one interval for each value."""
    descriptor: Json = {"objectType": "EVENT_PAYLOAD_DESCRIPTOR", "payloadType": kind, "units": units}
    return {
        "payloadDescriptors": [descriptor | ({"currency": more.pop("currency")} if "currency" in more else {})],
        "intervalPeriod": {"start": date(start_s), "duration": duration},
        "intervals": [{"id": i, "payloads": [{"type": kind, "values": [v]}]} for i, v in enumerate(values)],
        **more,
    }
