"""The connection to a broker over a client in memory: what it asks of the client, and what it says of each answer."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call, patch

import pytest

from wattqueue.errors import InputError
from wattqueue.live.agents import BrokerSection
from wattqueue.live.limits_guard.messages import Arrived
from wattqueue_agent.broker import KEEP_ALIVE_S, NOT_YET, Connection

AT_LEAST_ONCE = 1
"""Quality of service of MQTT: 0 loses messages, and 2 doubles the packets to keep out doubles, which agents drop."""


@pytest.fixture
def client() -> Iterator[Mock]:
    """The client of paho-mqtt that a connection makes."""
    with patch("wattqueue_agent.broker.mqtt.Client") as made:
        yield made.return_value


def opened(**more: Any) -> Connection:
    connection = Connection(BrokerSection(host="localhost", cluster="c", **more), "n1", "desired/n1")
    connection.open()
    return connection


def answer(text: str, *, failure: bool) -> Any:
    """A reason code of MQTT."""

    class Reason(SimpleNamespace):
        def __str__(self) -> str:
            return text

    return Reason(is_failure=failure)


def connect(client: Mock, reason: Any) -> None:
    client.on_connect(client, None, None, reason, None)


def disconnect(client: Mock, reason: str) -> None:
    client.on_disconnect(client, None, None, reason, None)


def test_it_connects_in_the_background_as_the_user_of_the_configuration(client: Mock, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.touch(0o600)
    secret.write_text("word\n")
    opened(port=7, user="someone", password_file=secret)
    assert client.username_pw_set.call_args_list == [call("someone", "word")]
    assert client.connect_async.call_args_list == [call("localhost", 7, KEEP_ALIVE_S)]
    assert client.loop_start.call_args_list == [call()]
    assert not client.tls_set.called


def test_without_a_user_its_name_is_the_user(client: Mock) -> None:
    opened()
    assert client.username_pw_set.call_args_list == [call("n1", None)]


def test_a_certificate_is_checked(client: Mock, tmp_path: Path) -> None:
    """Only this protocol of the ssl module checks the certificate and the host's name by itself."""
    opened(ca_file=tmp_path / "ca.crt")
    assert client.tls_set.call_args_list == [call(str(tmp_path / "ca.crt"), tls_version=ssl.PROTOCOL_TLS_CLIENT)]


@pytest.mark.parametrize("error", [FileNotFoundError("no such file"), ValueError("no PEM"), ssl.SSLError("broken")])
def test_a_certificate_that_cannot_be_used_is_named(client: Mock, tmp_path: Path, error: Exception) -> None:
    client.tls_set.side_effect = error
    with pytest.raises(InputError) as caught:
        opened(ca_file=tmp_path / "ca.crt")
    assert caught.value.where == tmp_path / "ca.crt"


@pytest.mark.parametrize(("retain_s", "expires_s"), [(0, None), (1, 1), (60, 60)])
def test_a_message_is_delivered_at_least_once_and_kept_at_the_broker_as_long_as_asked(
    client: Mock, retain_s: int, expires_s: int | None
) -> None:
    opened().send("state/n1", b"text", retain_s=retain_s)
    (topic, text), options = client.publish.call_args
    assert (topic, text) == ("wattqueue/c/state/n1", b"text")
    assert (options["qos"], options["retain"]) == (AT_LEAST_ONCE, expires_s is not None)
    assert getattr(options["properties"], "MessageExpiryInterval", None) == expires_s


def test_it_listens_once_it_is_connected_and_each_time_again(client: Mock) -> None:
    connection = opened()
    assert connection.problem == NOT_YET
    for times in (1, 2):
        connect(client, answer("Success", failure=False))
        assert connection.problem == ""
        assert client.subscribe.call_count == times
    assert client.subscribe.call_args == call("wattqueue/c/desired/n1", qos=AT_LEAST_ONCE)


def test_a_broker_that_refuses_is_not_listened_to_and_its_reason_stays(client: Mock) -> None:
    connection = opened()
    connect(client, answer("Not authorized", failure=True))
    assert not client.subscribe.called
    disconnect(client, "Unspecified error")
    assert "refuses" in connection.problem
    assert "Not authorized" in connection.problem


@pytest.mark.parametrize("connected", [False, True], ids=["before", "after"])
def test_a_connection_that_is_lost_is_a_problem_until_it_is_back(client: Mock, connected: bool) -> None:
    connection = opened()
    if connected:
        connect(client, answer("Success", failure=False))
    disconnect(client, "Keep alive timeout")
    assert connection.problem == "no connection to the broker: Keep alive timeout"
    connect(client, answer("Success", failure=False))
    assert connection.problem == ""


def test_a_broker_that_cannot_be_reached_is_named_with_the_error(client: Mock) -> None:
    connection = opened(port=7)
    try:
        raise ConnectionRefusedError("refused")
    except OSError:
        client.on_connect_fail(client, None)
    assert connection.problem == "no connection to localhost:7: refused"


def test_messages_are_kept_in_order_by_the_last_word_of_their_topic(client: Mock) -> None:
    connection = opened()
    for number in (1, 2):
        message = SimpleNamespace(topic=f"wattqueue/c/state/n{number}", payload=bytearray(b"text"))
        client.on_message(client, None, message)
    assert [connection.arrived.get_nowait() for _ in range(2)] == [Arrived("n1", b"text"), Arrived("n2", b"text")]


def test_it_ends_after_what_was_sent_has_left(client: Mock) -> None:
    """The loop that sends waits for its last packet: to end it first would lose that."""
    opened().close()
    assert [name for name, _, _ in client.method_calls][-2:] == ["disconnect", "loop_stop"]
