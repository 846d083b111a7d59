"""Addresses that a URL may lead to: checked without a network, through handed resolvers."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravityocr.errors import InputError
from gravityocr.pipeline.sources.addresses import checked_addresses, not_public, resolve

REFUSED = {
    "a private": ["10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "fd00:ec2::254", "fc00::1"],
    "a loopback": ["127.0.0.1", "127.9.9.9", "::1"],
    "a link-local": ["169.254.169.254", "fe80::1", "fe80::1%lo", "febf::1"],
    "a carrier-grade NAT": ["100.64.0.1", "100.127.255.255", "100.100.100.200"],
    "a multicast": ["224.0.0.1", "239.255.255.250", "ff02::1", "ff0e::1"],
    "a reserved": [
        *("0.0.0.0", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.7", "203.0.113.9"),
        *("240.0.0.1", "255.255.255.255", "::", "::127.0.0.1", "2001::1", "2001:db8::1", "3fff::1", "4000::1"),
        *("100::1", "fec0::1", "5f00::1"),
    ],
    "an IPv4-mapped": ["::ffff:127.0.0.1", "::ffff:8.8.8.8"],
    "a NAT64": ["64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1"],
    "a 6to4": ["2002:7f00:1::", "2002:808:808::1"],
    "a cloud provider's own": ["168.63.129.16"],
    "an unreadable": ["", "localhost", "1.2.3", "0x7f.1"],
}


@pytest.mark.parametrize(("what", "address"), [(what, one) for what, some in REFUSED.items() for one in some])
def test_addresses_that_are_not_public(what: str, address: str) -> None:
    assert not_public(address) == what


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "11.0.0.1", "192.169.0.1", "223.255.255.255", "2606:4700::1"],
)
def test_public_addresses(address: str) -> None:
    assert not_public(address) is None


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_nothing_passes_that_python_knows_to_be_private(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if address.is_private or address.is_multicast or address.is_reserved or address.is_loopback:
        # Python counts two anycast addresses in a private network as global, and those we refuse as well
        assert not_public(str(address)) is not None
    if not_public(str(address)) is None:
        assert address.is_global and not address.is_multicast


def test_one_bad_address_of_several_refuses_the_host() -> None:
    def both(host: str, port: int) -> Sequence[str]:
        return ["8.8.8.8", "192.168.1.9"]

    with pytest.raises(InputError, match=r"h\.org leads to 192\.168\.1\.9, a private address.*--allow-private-urls"):
        checked_addresses("h.org", 80, both)
    assert checked_addresses("h.org", 80, both, allow_private=True) == ["8.8.8.8", "192.168.1.9"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "017700000001", "::1", "::ffff:127.0.0.1", "0", "[::1]"]
)
def test_other_spellings_of_this_machine_do_not_pass(host: str) -> None:
    with pytest.raises(InputError, match="leads to|cannot be found"):
        checked_addresses(host, 80)


@pytest.mark.parametrize("failure", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")])
def test_hosts_without_an_address_are_named(failure: Exception) -> None:
    def fails(host: str, port: int) -> Sequence[str]:
        raise failure

    with pytest.raises(InputError, match=r"h\.org cannot be found \(.+\); check the address"):
        checked_addresses("h.org", 80, fails)
    with pytest.raises(InputError, match="has no address"):
        checked_addresses("h.org", 80, lambda host, port: [])


def test_the_systems_resolver_gives_each_address_once() -> None:
    assert resolve("127.0.0.1", 80) == ["127.0.0.1"]
