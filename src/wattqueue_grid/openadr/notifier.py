"""Notifications over MQTT, where the VTN offers it: like a webhook, a reason to look at once.

The VTN says which brokers there are, how to authenticate, and which topics there are. A token is sent to a broker over
TLS only. The keys of ``CERTIFICATE`` come in the VTN's answer; the library that reads them takes files alone, so they
are in a private folder while it reads them, and then removed.

Reference: OpenADR 3.1.0, schemas ``notifiersResponse``, ``mqttNotifierBindingObject``, ``notifierTopicsResponse``.
"""

from __future__ import annotations

import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from wattqueue.errors import InputError
from wattqueue.live.files.reading import is_loopback
from wattqueue_grid.openadr.client import VtnClient, VtnError, trusted
from wattqueue_grid.openadr.objects import parse_as

if TYPE_CHECKING:
    import paho.mqtt.client as mqtt

PLAIN_PORT, TLS_PORT = 1883, 8883
TLS_SCHEMES = {"mqtts": True, "ssl": True, "mqtt": False, "tcp": False}
"""Whether a scheme of a broker's URL means TLS."""
NOT_YET = "not connected yet"


class _Authentication(BaseModel):
    """How to authenticate at a broker."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    method: Literal["ANONYMOUS", "OAUTH2_BEARER_TOKEN", "CERTIFICATE"]
    username: str = ""
    ca_cert: Annotated[str, Field(alias="caCert", repr=False)] = ""
    client_cert: Annotated[str, Field(alias="clientCert", repr=False)] = ""
    client_key: Annotated[str, Field(alias="clientKey", repr=False)] = ""


class MqttOffer(BaseModel):
    """The MQTT notifier that a VTN offers."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    uris: Annotated[tuple[str, ...], Field(alias="URIS", min_length=1)]
    serialization: Literal["JSON"]
    authentication: _Authentication


class _Topics(BaseModel):
    model_config = ConfigDict(extra="ignore")

    topics: dict[str, str]


def offered(client: VtnClient) -> MqttOffer | None:
    """Return the MQTT notifier of the VTN, None where it has none. Raises: VtnError, InputError."""
    try:
        answer = client.get("/notifiers")
    except VtnError as error:
        if error.status in (403, 404, 501):
            return None
        raise
    offer = answer.get("MQTT") if isinstance(answer, dict) else None
    return None if offer is None else parse_as(MqttOffer, offer, "notifier MQTT")


def topics_of(client: VtnClient, ven_id: str, program_ids: list[str]) -> list[str]:
    """Return the topics of events of programs and of this VEN. Raises: VtnError, InputError."""
    paths = [f"/notifiers/mqtt/topics/programs/{one}/events" for one in program_ids]
    paths.append(f"/notifiers/mqtt/topics/vens/{ven_id}/events")
    found: set[str] = set()
    for path in paths:
        try:
            found |= set(parse_as(_Topics, client.get(path), "topics").topics.values())
        except VtnError as error:
            if error.status not in (403, 404):  # not for this client, or not offered
                raise
    return sorted(found)


@dataclass
class MqttNotifier:
    """A connection to the VTN's broker, in paho's thread; it comes back by itself.

    Attributes:
        client: Whom tokens are asked of.
        offer: What the VTN said.
        topics: What is subscribed to.
        wake: Called for each message.
        problem: Why there is no connection; empty while there is one.
    """

    client: VtnClient
    offer: MqttOffer
    topics: list[str]
    wake: Callable[[], None]
    problem: str = NOT_YET
    _mqtt: mqtt.Client = field(init=False, repr=False)

    def open(self) -> None:
        """Begin to connect. Raises: InputError for a broker that cannot be used."""
        import paho.mqtt.client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        host, port, encrypted = address(self.offer.uris)
        method = self.offer.authentication.method
        if method != "ANONYMOUS" and not encrypted and not is_loopback(host):
            raise InputError(f"the broker {host} is not encrypted, and gets no token", hint="the VTN must state mqtts:")
        self._mqtt = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv311)
        if encrypted:
            self._mqtt.tls_set_context(self._context())
        if method == "OAUTH2_BEARER_TOKEN":
            self._mqtt.on_pre_connect = self._authenticate
        self._mqtt.reconnect_delay_set(1, 30)
        self._mqtt.on_connect, self._mqtt.on_connect_fail = self._connected, self._failed
        self._mqtt.on_disconnect, self._mqtt.on_message = self._gone, self._message
        self._mqtt.connect_async(host, port, 30)
        self._mqtt.loop_start()

    def close(self) -> None:
        """End the connection."""
        self._mqtt.disconnect()
        self._mqtt.loop_stop()

    def _context(self) -> ssl.SSLContext:
        """Return whom TLS trusts, with our certificate where the broker asks for one. Raises: InputError."""
        stated = self.offer.authentication
        context = trusted(self.client.section)
        if stated.method != "CERTIFICATE":
            return context
        self.client.secrets.add(stated.client_key)
        try:
            context.load_verify_locations(cadata=stated.ca_cert)
            with tempfile.TemporaryDirectory() as folder:  # for its owner alone
                cert, key = Path(folder, "cert"), Path(folder, "key")
                cert.write_text(stated.client_cert)
                key.write_text(stated.client_key)
                context.load_cert_chain(cert, key)
        except (OSError, ValueError, ssl.SSLError) as error:
            raise InputError(f"the broker's certificates cannot be used: {type(error).__name__}") from None
        return context

    def _authenticate(self, client: mqtt.Client, _data: Any) -> None:
        """Set the token before each connection: the one before may be over."""
        name = self.offer.authentication.username.replace("{clientID}", self.client.section.client_id)
        try:
            client.username_pw_set(name, self.client.token())
        except VtnError as error:
            self.problem = f"no token for the broker: {error}"

    def _connected(self, client: mqtt.Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self.problem = f"the broker refuses the connection: {reason}" if reason.is_failure else ""
        if not self.problem:
            client.subscribe([(topic, 1) for topic in self.topics])
            self.wake()  # what happened while there was no connection

    def _failed(self, _client: mqtt.Client, _data: Any) -> None:
        error = sys.exc_info()[1]  # paho calls this where it handles the error, and does not hand it over
        self.problem = f"no connection to the VTN's broker: {type(error).__name__}"

    def _gone(self, _client: mqtt.Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if self.problem in ("", NOT_YET):  # what the broker refused says more
            self.problem = f"no connection to the VTN's broker: {reason}"

    def _message(self, _client: mqtt.Client, _data: Any, _message: mqtt.MQTTMessage) -> None:
        self.wake()


def address(uris: tuple[str, ...]) -> tuple[str, int, bool]:
    """Return host, port and whether TLS is used of the first URI that can be, an encrypted one before others.

    Raises: InputError where none can be used.
    """
    found = sorted(_addresses(uris), key=lambda one: not one[2])
    if not found:
        raise InputError(f"no broker that can be used: {', '.join(uris)[:80]}", hint="mqtts://host:port")
    return found[0]


def _addresses(uris: tuple[str, ...]) -> Iterator[tuple[str, int, bool]]:
    """Yield what can be used of some URIs."""
    for uri in uris:
        try:
            parts = urlsplit(uri)
            port = parts.port
        except ValueError:
            continue
        if parts.scheme in TLS_SCHEMES and parts.hostname:
            encrypted = TLS_SCHEMES[parts.scheme]
            yield parts.hostname, port or (TLS_PORT if encrypted else PLAIN_PORT), encrypted
