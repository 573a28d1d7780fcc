"""A connection to an MQTT broker, for agents, for the controller, and for the process that publishes limits.

Topics are ``wattqueue/CLUSTER/desired/NODE`` (retained, with an expiry: a node that comes back gets the newest one) and
``wattqueue/CLUSTER/state/NODE``. The broker's access list keeps nodes apart: a node, whose user bears its name, may
read its own ``desired`` and write its own ``state``, and nothing else (docs/guide/agent.md).

Reference: MQTT 5.0, 3.3.2.3.3 (message expiry interval).
"""

from __future__ import annotations

import queue
import ssl
import sys
from dataclasses import dataclass, field
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from wattqueue.errors import InputError
from wattqueue.live.files.reading import read_secret
from wattqueue.live.limits_guard.messages import Arrived, BrokerAddress

KEEP_ALIVE_S = 10
"""After half again as long without a word the broker declares a client gone."""


NOT_YET = "not connected yet"


@dataclass
class Connection:
    """One client. It connects in the background, and again whenever the connection is lost.

    Attributes:
        section: Where the broker is, and who connects.
        name: The client's name at the broker, which disconnects an older client of the same name.
        listen: Part of the topics that are listened to: ``desired/NODE`` or ``state/+``.
        arrived: Messages in the order of arrival.
    """

    section: BrokerAddress
    name: str
    listen: str
    arrived: queue.SimpleQueue[Arrived] = field(default_factory=queue.SimpleQueue)
    problem: str = NOT_YET
    """Why there is no connection; empty while there is one."""
    _client: mqtt.Client = field(init=False)

    def open(self) -> None:
        """Begin to connect. Raises: InputError where a file of the configuration cannot be used."""
        client = mqtt.Client(CallbackAPIVersion.VERSION2, self.name, protocol=mqtt.MQTTv5)
        password = None if self.section.password_file is None else read_secret(self.section.password_file)
        client.username_pw_set(self.section.user or self.name, password)
        if self.section.ca_file is not None:
            try:
                client.tls_set(str(self.section.ca_file), tls_version=ssl.PROTOCOL_TLS_CLIENT)
            except (OSError, ValueError) as error:
                raise InputError(f"no certificate: {error}", where=self.section.ca_file) from error
        client.reconnect_delay_set(1, 10)
        client.on_connect, client.on_connect_fail = self._connected, self._failed
        client.on_disconnect, client.on_message = self._gone, self._message
        self._client = client
        client.connect_async(self.section.host, self.section.port, KEEP_ALIVE_S)
        client.loop_start()

    def close(self) -> None:
        """End the connection, after what was sent has left."""
        self._client.disconnect()
        self._client.loop_stop()

    def send(self, topic: str, text: bytes, *, retain_s: int = 0) -> None:
        """Send a message; ``retain_s`` > 0 keeps it at the broker for so long, for clients that come later."""
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if retain_s > 0:
            properties.MessageExpiryInterval = retain_s
        self._client.publish(f"{self._root}/{topic}", text, qos=1, retain=retain_s > 0, properties=properties)

    @property
    def _root(self) -> str:
        return f"wattqueue/{self.section.cluster}"

    def _connected(self, client: mqtt.Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self.problem = f"the broker refuses the connection: {reason}" if reason.is_failure else ""
        if not self.problem:
            client.subscribe(f"{self._root}/{self.listen}", qos=1)

    def _failed(self, _client: mqtt.Client, _data: Any) -> None:
        reason = sys.exc_info()[1]  # the callback is called where the error is handled, and does not get it
        self.problem = f"no connection to {self.section.host}:{self.section.port}: {reason}"

    def _gone(self, _client: mqtt.Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if self.problem in ("", NOT_YET):  # what the broker refused says more
            self.problem = f"no connection to the broker: {reason}"

    def _message(self, _client: mqtt.Client, _data: Any, message: mqtt.MQTTMessage) -> None:
        self.arrived.put(Arrived(message.topic.rpartition("/")[2], bytes(message.payload)))
