"""A small VTN of OpenADR 3.1, to try WattQueue's VEN against, and for its tests. Not for production: it forgets all.

    python examples/openadr/vtn.py --port 8080
    python examples/openadr/vtn.py --port 8080 --document openadr3-3.1.0.yaml

With ``--document`` each request and each answer is validated against the OpenAPI document of OpenADR 3.1.0
(needs ``pip install openapi-core``): a request that breaks it is answered by 400, an answer that breaks it by 500,
and both are listed at ``/_violations``. Clients are ``ven`` (secret ``ven-secret``) and ``bl`` (``bl-secret``), the
business logic that makes programs and events; ``--clients`` names a JSON file with others. With ``--example`` it begins
with a program and four events, of which the first begins in ten minutes.

Two things of the document no answer can meet, and are left out of it: a ``ven`` must have ``objectType`` VEN by one of
its two parts and BL_VEN_REQUEST by the other (a ``resource`` likewise), and discriminators name types of no schema.
"""

from __future__ import annotations

import argparse
import copy
import hmac
import json
import queue
import secrets
import ssl
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
KINDS = {
    "programs": "PROGRAM",
    "events": "EVENT",
    "reports": "REPORT",
    "subscriptions": "SUBSCRIPTION",
    "vens": "VEN",
    "resources": "RESOURCE",
}
WRITERS = {"programs": {"bl"}, "events": {"bl"}, "reports": {"ven"}}
"""Who may write what; clients of both roles may write all else."""


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """A request that is answered by a problem."""

    def __init__(self, status: int, detail: str) -> None:
        self.status = status
        super().__init__(detail)


@dataclass
class Vtn:
    """Objects, tokens, faults to play, and what was found wrong.

    Attributes:
        clients: Secret and role (``ven`` or ``bl``) by client id.
        base: URL of the VTN itself.
        mqtt: URL of an MQTT broker to publish to; empty for none.
        token_s: Time for which a token is valid.
    """

    clients: dict[str, tuple[str, str]]
    base: str = ""
    mqtt: str = ""
    token_s: float = 3600.0
    objects: dict[str, Json] = field(default_factory=dict)
    tokens: dict[str, tuple[str, float]] = field(default_factory=dict)
    faults: list[Json] = field(default_factory=list)
    requests: list[Json] = field(default_factory=list)
    delivered: list[Json] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    outbox: queue.SimpleQueue[Json] = field(default_factory=queue.SimpleQueue)
    number: int = 0

    # -- requests ------------------------------------------------------------------------------
    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any, token: str) -> tuple[int, Any]:
        """Return status and body. Raises: Refused."""
        parts = path.strip("/").split("/")
        if parts == ["auth", "server"]:
            return 200, {"tokenURL": f"{self.base}/auth/token"}
        if parts == ["auth", "token"]:
            return 200, self.issue(body)
        client, role = self.client_of(token)
        if parts[0] == "notifiers":
            return 200, self.notifiers(parts[1:])
        if parts[0] not in KINDS or len(parts) > 2:
            raise Refused(404, "no such path")
        if method != "GET" and role not in WRITERS.get(parts[0], {"ven", "bl"}):
            raise Refused(403, f"a {role} may not write {parts[0]}")
        if len(parts) == 1 and method == "GET":
            return 200, self.found(parts[0], query, client, role)
        if len(parts) == 1:
            return 201, self.create(parts[0], body, client)
        return 200, self.one(method, parts[0], parts[1], body, client, role)

    def issue(self, form: Json) -> Json:
        """Return a token for client credentials."""
        secret, role = self.clients.get(str(form.get("client_id")), ("", ""))
        if not role or not hmac.compare_digest(secret.encode(), str(form.get("client_secret")).encode()):
            raise Refused(401, "invalid_client")
        token = secrets.token_urlsafe(24)
        self.tokens[token] = (str(form["client_id"]), time.time() + self.token_s)
        return {"access_token": token, "token_type": "Bearer", "expires_in": round(self.token_s)}

    def client_of(self, token: str) -> tuple[str, str]:
        """Return the client of a token, and its role."""
        client, until_s = self.tokens.get(token, ("", 0.0))
        if not client or time.time() > until_s:
            raise Refused(401, f"the token {token} is not valid")  # repeats it, as careless servers do
        return client, self.clients[client][1]

    def notifiers(self, parts: list[str]) -> Json:
        """Return the notifiers, or the topics of an MQTT notifier."""
        if not parts:
            offered: Json = {"WEBHOOK": True}
            if self.mqtt:
                offered["MQTT"] = {
                    "URIS": [self.mqtt],
                    "serialization": "JSON",
                    "authentication": {"method": "ANONYMOUS"},
                }
            return offered
        if not self.mqtt or parts[:2] != ["mqtt", "topics"] or len(parts) < 3:
            raise Refused(404, "no such notifier")
        root = "openadr/" + "/".join(parts[2:])
        topics = {"UPDATE": f"{root}/update", "DELETE": f"{root}/delete"}
        if len(parts) % 2:  # a list, not one object
            topics["CREATE"] = f"{root}/create"
        return {"topics": topics}

    def found(self, kind: str, query: dict[str, list[str]], client: str, role: str) -> list[Json]:
        """Return objects that fit a query, a page of them."""
        rows = [one for one in self.objects.values() if one["objectType"] == KINDS[kind]]
        if role == "ven" and kind in {"vens", "resources", "reports", "subscriptions"}:
            rows = [one for one in rows if one.get("clientID") == client]
        for key in ("programID", "eventID", "clientName", "venName", "resourceName", "venID"):
            if key in query:
                rows = [one for one in rows if one.get(key) == query[key][0]]
        if "targets" in query:
            rows = [one for one in rows if set(query["targets"]) & set(one.get("targets") or ())]
        skip = int(query.get("skip", ["0"])[0])
        return rows[skip : skip + int(query.get("limit", ["50"])[0])]

    def create(self, kind: str, body: Json, client: str) -> Json:
        """Add an object."""
        if kind in {"vens", "resources"}:
            name = "venName" if kind == "vens" else "resourceName"
            if any(one.get(name) == body[name] and one["objectType"] == KINDS[kind] for one in self.objects.values()):
                raise Refused(409 if kind == "resources" else 400, f"{body[name]} exists")
        if kind in {"events", "reports"}:
            of = "programID" if kind == "events" else "eventID"
            if body[of] not in self.objects:
                raise Refused(404 if kind == "events" else 400, f"no {of} {body[of]}")
        self.number += 1
        now = stamp()
        made = {**body, "id": f"{kind}-{self.number}", "createdDateTime": now, "modificationDateTime": now}
        made["objectType"] = KINDS[kind]
        if kind in {"vens", "resources", "reports", "subscriptions"}:
            made.setdefault("clientID", client)
        self.objects[made["id"]] = made
        self.notify("CREATE", made)
        return made

    def one(self, method: str, kind: str, name: str, body: Any, client: str, role: str) -> Json:
        """Return, replace or delete one object."""
        found = self.objects.get(name)
        if found is None or found["objectType"] != KINDS[kind]:
            raise Refused(404, f"no {kind} {name}")
        if role == "ven" and found.get("clientID", client) != client:
            raise Refused(403, "of another client")
        if method == "DELETE":
            del self.objects[name]
            self.notify("DELETE", found)
            return found
        if method == "PUT":
            kept: Json = {
                key: found[key] for key in ("id", "createdDateTime", "objectType", "clientID") if key in found
            }
            found = {**dict(body), **kept, "modificationDateTime": stamp()}
            self.objects[name] = found
            self.notify("UPDATE", found)
        return found

    # -- notifications -------------------------------------------------------------------------
    def notify(self, operation: str, one: Json) -> None:
        """Queue a notification of what happened to an object."""
        self.outbox.put({"objectType": one["objectType"], "operation": operation, "object": copy.deepcopy(one)})

    def deliver(self, validator: Validator | None) -> None:
        """Send notifications to webhooks and to the broker, for ever."""
        import httpx

        broker = None
        while True:
            note = self.outbox.get()
            if validator is not None:
                self.violations += validator.notification(note)
            with self.lock:
                subscriptions = [s for s in self.objects.values() if s["objectType"] == "SUBSCRIPTION"]
            for wanted in (w for s in subscriptions for w in s["objectOperations"]):
                if note["objectType"] not in wanted["objects"] or note["operation"] not in wanted["operations"]:
                    continue
                headers = {"Authorization": f"Bearer {wanted.get('bearerToken') or ''}"}
                try:
                    status = httpx.post(wanted["callbackUrl"], json=note, headers=headers, timeout=5.0).status_code
                except httpx.HTTPError as error:
                    status = 0
                    print(f"webhook: {type(error).__name__}", flush=True)
                self.delivered.append({"url": wanted["callbackUrl"], "status": status, **note})
            if self.mqtt and note["objectType"] == "EVENT":
                broker = broker or connected(self.mqtt)
                topic = f"openadr/programs/{note['object']['programID']}/events/{note['operation'].lower()}"
                broker.publish(topic, json.dumps(note), qos=1).wait_for_publish(5.0)

    # -- faults --------------------------------------------------------------------------------
    def fault(self, path: str) -> Json:
        """Return the fault to play for a path, once less to come; empty for none."""
        for one in self.faults:
            if one.get("count", 1) > 0 and path.startswith(one.get("path", "/")):
                one["count"] = one.get("count", 1) - 1
                return one
        return {}


class Validator:
    """The OpenAPI document of OpenADR 3.1.0, less what no answer can meet (see the module's text)."""

    def __init__(self, document: Path, base: str) -> None:
        import yaml
        from openapi_core import Config, OpenAPI

        spec = yaml.safe_load(document.read_text(encoding="utf-8"))
        spec["servers"] = [{"url": base}]
        schemas = spec["components"]["schemas"]
        for name, part in (("ven", "BlVenRequest"), ("resource", "BlResourceRequest")):
            plain = copy.deepcopy(schemas[part])
            plain["required"].remove("objectType")
            del plain["properties"]["objectType"]
            schemas[name]["allOf"][1] = plain
        without_discriminators(spec)
        self.base = base
        self.schemas = schemas
        self.api = OpenAPI.from_dict(spec, config=Config(spec_validator_cls=None))

    def request(self, method: str, path: str, query: dict[str, list[str]], body: bytes, headers: Json) -> Any:
        """Return a request for the two checks."""
        from openapi_core.testing import MockRequest
        from werkzeug.datastructures import MultiDict

        # The document's parameters arrive as text and are cast by their schemas.
        args = MultiDict([(key, value) for key, values in query.items() for value in values])
        kind = headers.get("Content-Type", "").partition(";")[0]
        return MockRequest(self.base, method.lower(), path, args=args, headers=headers, data=body, content_type=kind)

    def wrong_request(self, request: Any) -> list[str]:
        """Return what is wrong with a request."""
        return reasons(lambda: self.api.validate_request(request))

    def wrong_answer(self, request: Any, status: int, body: Any) -> list[str]:
        """Return what is wrong with an answer."""
        from openapi_core.testing import MockResponse

        answer = MockResponse(json.dumps(body).encode(), status_code=status, content_type="application/json")
        return reasons(lambda: self.api.validate_response(request, answer))

    def notification(self, note: Json) -> list[str]:
        """Return what is wrong with a notification."""
        from openapi_schema_validator import OAS30Validator

        schema = {"$ref": "#/components/schemas/notification", "components": {"schemas": self.schemas}}
        return [f"notification: {error.message[:300]}" for error in OAS30Validator(schema).iter_errors(note)]


def without_discriminators(node: Any) -> None:
    """Remove discriminators: they name types for which the document has no schema, and decide nothing beside oneOf."""
    if isinstance(node, dict):
        node.pop("discriminator", None)
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        without_discriminators(child)


def reasons(check: Any) -> list[str]:
    """Return what a check raises, with its causes."""
    try:
        check()
    except Exception as error:  # noqa: BLE001 - openapi-core has many kinds, of no common base
        details = [one.message for one in getattr(error.__cause__, "schema_errors", ())]
        return [f"{type(error).__name__}: {error} {details}"[:500]]
    return []


def connected(url: str) -> Any:
    """Return a client of an MQTT broker."""
    import paho.mqtt.client as mqtt
    from paho.mqtt.enums import CallbackAPIVersion

    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.connect(urlsplit(url).hostname or "", urlsplit(url).port or 1883)
    client.loop_start()
    return client


def stamp() -> str:
    """Return the date and time."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def handler_of(vtn: Vtn, validator: Validator | None) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - one class
    """Return the class that answers requests."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes

        def log_message(self, *_: Any) -> None:
            """Keep silent: the walk prints what matters."""

        def date_time_string(self, timestamp: float | None = None) -> str:
            return formatdate((timestamp or time.time()) + self.clock_offset_s, usegmt=True)

        clock_offset_s = 0.0

        def do_GET(self) -> None:
            self.serve()

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - names that http.server looks for

        def serve(self) -> None:
            split = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if split.path.startswith("/_"):
                self.reply(200, self.control(split.path, raw))
                return
            with vtn.lock:
                fault = vtn.fault(split.path)
            self.clock_offset_s = float(fault.get("clock_offset_s", 0.0))
            time.sleep(float(fault.get("delay_s", 0.0)))
            if "status" in fault:
                self.reply(fault["status"], fault.get("body", {"title": "a fault that was asked for"}), fault)
                return
            query = parse_qs(split.query, keep_blank_values=True)
            vtn.requests.append({"method": self.command, "path": split.path, "query": query})
            status, body, request = self.outcome(split.path, query, raw)
            wrong = [] if validator is None else validator.wrong_answer(request, status, body)
            vtn.violations += [f"answer {status} to {self.command} {split.path}: {w}" for w in wrong]
            self.reply(*((500, {"title": "the answer breaks the document"}) if wrong else (status, body)))

        def outcome(self, path: str, query: dict[str, list[str]], raw: bytes) -> tuple[int, Any, Any]:
            request = None
            if validator is not None:
                request = validator.request(self.command, path, query, raw, dict(self.headers))
                if wrong := validator.wrong_request(request):
                    vtn.violations += [f"{self.command} {path}: {w}" for w in wrong]
                    return 400, {"title": "the request breaks the document", "detail": wrong[0]}, request
            form = self.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded")
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            try:
                body: Any = None
                if raw:
                    body = {k: v[0] for k, v in parse_qs(raw.decode()).items()} if form else json.loads(raw)
                with vtn.lock:
                    return *vtn.answer(self.command, path, query, body, token), request
            except Refused as refused:
                return refused.status, {"title": "refused", "detail": str(refused)}, request
            except (ValueError, KeyError, TypeError) as error:
                return 400, {"title": "bad request", "detail": repr(error)}, request

        def control(self, path: str, raw: bytes) -> Any:
            """Serve the tests: set faults and objects, show what happened."""
            with vtn.lock:
                if path == "/_faults" and self.command == "PUT":
                    vtn.faults = json.loads(raw)
                if path == "/_objects" and self.command == "PUT":  # as they are, to play a VTN that breaks the rules
                    vtn.objects.update(json.loads(raw))
                if path == "/_tokens" and self.command == "DELETE":
                    vtn.tokens.clear()
                shown = {"/_violations": vtn.violations, "/_requests": vtn.requests, "/_delivered": vtn.delivered}
                return shown.get(path, list(vtn.objects.values()))

        def reply(self, status: int, body: Any, fault: Json | None = None) -> None:
            text = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            for name, value in (fault or {}).get("headers", {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

    return Handler


def example(vtn: Vtn) -> None:
    """Make a program, and events of a limit, of prices, of a level without a stated meaning, and an alert."""
    begin = datetime.fromtimestamp(time.time() // 60 * 60 + 600, UTC).isoformat()
    program = vtn.create("programs", {"programName": "demand-response"}, "bl")["id"]

    def event(name: str, kind: str, values: list[Any], **described: str) -> None:
        described |= {"objectType": "EVENT_PAYLOAD_DESCRIPTOR", "payloadType": kind}
        body = {
            "programID": program,
            "eventName": name,
            "payloadDescriptors": [described],
            "intervalPeriod": {"start": begin, "duration": "PT1H"},
            "intervals": [{"id": i, "payloads": [{"type": kind, "values": [v]}]} for i, v in enumerate(values)],
        }
        vtn.create("events", body, "bl")

    event("evening peak", "IMPORT_CAPACITY_LIMIT", [407, 450], units="KW")
    event("day ahead", "PRICE", [0.21, 0.34, -0.02], units="KWH", currency="EUR")
    event("level", "SIMPLE", [2])
    event("warning", "ALERT_GRID_EMERGENCY", ["frequency is low"])


def main() -> None:
    """Serve until stopped."""
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("--port", type=int, default=8080)
    ask.add_argument("--example", action="store_true", help="begin with a program and four events")
    ask.add_argument("--document", type=Path, help="OpenAPI document to validate against")
    ask.add_argument("--clients", type=Path, help='JSON: {"client id": ["secret", "ven or bl"]}')
    ask.add_argument("--cert", type=Path)
    ask.add_argument("--key", type=Path)
    ask.add_argument("--mqtt", default="", help="URL of a broker, such as mqtt://localhost:1883")
    ask.add_argument("--token-s", type=float, default=3600.0)
    given = ask.parse_args()
    clients = {"ven": ("ven-secret", "ven"), "bl": ("bl-secret", "bl")}
    if given.clients is not None:
        clients = {name: (row[0], row[1]) for name, row in json.loads(given.clients.read_text()).items()}
    vtn = Vtn(clients, mqtt=given.mqtt, token_s=given.token_s)
    server = ThreadingHTTPServer(("127.0.0.1", given.port), BaseHTTPRequestHandler)
    scheme = "http"
    if given.cert is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(given.cert, given.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    if given.example:
        example(vtn)
    vtn.base = f"{scheme}://localhost:{server.server_port}"
    validator = Validator(given.document, vtn.base) if given.document is not None else None
    server.RequestHandlerClass = handler_of(vtn, validator)
    server.daemon_threads = True
    threading.Thread(target=vtn.deliver, args=(validator,), daemon=True).start()
    print(f"VTN at {vtn.base}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
