"""Which addresses of the network a URL may lead to: public ones, each checked before it is connected to."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence

from gravityocr.errors import InputError

Resolver = Callable[[str, int], Sequence[str]]
"""A host name and a port to its addresses."""

# What is not public, after the IANA special-purpose registries. Those of Python's ipaddress differ by version.
_IPV4: dict[str, tuple[str, ...]] = {
    "a private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    "a loopback": ("127.0.0.0/8",),
    "a link-local": ("169.254.0.0/16",),
    "a carrier-grade NAT": ("100.64.0.0/10",),
    "a multicast": ("224.0.0.0/4",),
    "a reserved": (
        "0.0.0.0/8",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "240.0.0.0/4",
    ),
    "a cloud provider's own": ("168.63.129.16/32",),  # Azure's platform services, reachable from inside only
}
_IPV6: dict[str, tuple[str, ...]] = {
    "a loopback": ("::1/128",),
    "an IPv4-mapped": ("::ffff:0:0/96",),
    "a NAT64": ("64:ff9b::/96", "64:ff9b:1::/48"),
    "a 6to4": ("2002::/16",),
    "a private": ("fc00::/7",),
    "a link-local": ("fe80::/10",),
    "a multicast": ("ff00::/8",),
    "a reserved": ("2001::/23", "2001:db8::/32", "3fff::/20"),
}
_GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")  # all that IANA has given out; the rest is reserved
_NETWORKS = {
    4: [(what, ipaddress.ip_network(text)) for what, texts in _IPV4.items() for text in texts],
    6: [(what, ipaddress.ip_network(text)) for what, texts in _IPV6.items() for text in texts],
}


def not_public(address: str) -> str | None:
    """Say of what kind an address is that is not public, as `a private`; None for a public one."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "an unreadable"
    if getattr(parsed, "scope_id", None):
        return "a link-local"
    for what, network in _NETWORKS[parsed.version]:
        if parsed in network:
            return what
    return "a reserved" if parsed.version == 6 and parsed not in _GLOBAL_IPV6 else None


def resolve(host: str, port: int) -> list[str]:
    """Return a host's addresses as the system resolves them, each once.

    *Raises*: OSError where there are none; UnicodeError for what is no host name, OverflowError for no port.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def checked_addresses(host: str, port: int, resolver: Resolver = resolve, allow_private: bool = False) -> list[str]:
    """Resolve a host once and return its addresses, all of them public unless `allow_private`.

    One address that is not public refuses the host, whatever the others are. Connect to what is returned, never to
    the name again: a second look-up may give other addresses.

    *Raises*: InputError, without the URL, for a host that has no address or leads to one that is not public.
    """
    try:
        addresses = list(resolver(host, port))
    except (OSError, ValueError, OverflowError) as error:  # UnicodeError is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{host} cannot be found ({reason}); check the address") from error
    if not addresses:
        raise InputError(f"{host} has no address; check it")
    for address in addresses:
        what = None if allow_private else not_public(address)
        if what:
            remedy = "--allow-private-urls permits it"
            raise InputError(f"{host} leads to {address}, {what} address, and those are not fetched from; {remedy}")
    return addresses
