"""Which addresses the web tools may connect to: public ones, checked as numbers on the connection."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_REFUSED_4 = tuple(
    (ipaddress.IPv4Network(net), why)
    for net, why in (
        ("169.254.169.254/32", "a metadata service"),
        ("168.63.129.16/32", "a metadata service"),
        ("192.88.99.0/24", "a tunnel"),
        ("224.0.0.0/4", "multicast"),
        # What older versions of `ipaddress` take for global, and what nobody should learn from a library.
        *((net, "not public") for net in ("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16")),
        *((net, "not public") for net in ("172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15")),
        ("240.0.0.0/4", "not public"),
    )
)
_REFUSED_6 = tuple(
    (ipaddress.IPv6Network(net), why)
    for net, why in (
        ("2001::/23", "a tunnel or a reserved range"),  # Teredo among others
        ("2002::/16", "a tunnel"),  # 6to4, which holds an IPv4 address
        ("2001:db8::/32", "for documentation"),
        ("3fff::/20", "for documentation"),
    )
)
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
"""All that is given out for the public network; translated and mapped IPv4 addresses lie outside of it."""


class AddressRefused(OSError):
    """The connection would go where the web tools must not go. The message is for the model."""


def refusal(text: str) -> str | None:
    """Why this numeric address may not be reached; None for a public one.

    Anything that is not in the plain notation (octal, hexadecimal, shortened, with a zone) is refused.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "not a plain address"
    if isinstance(address, ipaddress.IPv4Address):
        found = next((why for net, why in _REFUSED_4 if address in net), None)
        return found or (None if address.is_global else "not public")
    if address not in _GLOBAL_6 or not address.is_global:
        return "not public"
    return next((why for net, why in _REFUSED_6 if address in net), None) or (
        "a tunnel" if address.packed[8:12] in (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe") else None  # ISATAP
    )


def is_own(text: str) -> bool:
    """True if the address belongs to this machine: the route to it begins at it. Sends nothing."""
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((text, 9))
        return bool(probe.getsockname()[0] == text)
    return False


class Gate:
    """Decides about every single connection of one fetch."""

    def __init__(self, allow: frozenset[str]) -> None:
        self._allow = allow

    def check(self, address: str, port: int) -> None:
        """Raises `AddressRefused`."""
        shown = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        if shown in self._allow:
            return
        why = refusal(address) or ("this machine" if is_own(address) else None)
        if why is not None:
            raise AddressRefused(f"the address {address} is {why}")

    def socket(self, info: Any) -> socket.socket:
        """The socket of a connection, made only for a checked address: aiohttp asks for it with the very
        address that it then connects to, so nothing can change in between."""
        family, kind, protocol, _, peer = info
        self.check(peer[0], peer[1])
        return socket.socket(family, kind, protocol)


class Resolver(AbstractResolver):
    """Names to addresses, bounded, without those that the gate refuses."""

    def __init__(self, gate: Gate, seconds: float) -> None:
        self._gate = gate
        self._seconds = seconds

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises `AddressRefused` if a name has only refused addresses, OSError if it has none."""
        try:
            async with asyncio.timeout(self._seconds):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        except TimeoutError:
            raise OSError(None, f"the name {host} was not resolved in time") from None
        usable: list[ResolveResult] = []
        refused: AddressRefused | None = None
        for one, _, protocol, _, peer in found:
            try:
                self._gate.check(str(peer[0]), port)
            except AddressRefused as error:
                refused = error
                continue
            usable.append(
                ResolveResult(
                    hostname=host,
                    host=str(peer[0]),
                    port=port,
                    family=one,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        if not usable and refused is not None:
            raise refused
        return usable

    async def close(self) -> None:
        """Nothing is held."""
