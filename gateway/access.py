"""Who may do what: roles, the rights of a turn, and who is answered in a group. Default deny.

Only stable ids count, never display names. Everything is computed from the present configuration at the
moment of use, so that a removal from a list acts on the next message and on running turns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from adapters.events import ChatAddress, MessageEvent
from agent_core.tools.ports import Rights, RightsRole
from gateway.keys import person_of

Role = RightsRole

EVERYBODY = "*"
NOT_ADDRESSED = "not addressed to me"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """`allow` is a list of stable ids a platform (`*`: everybody, as a guest); `members` are persons
    that a platform vouches for itself (the keys of the HTTP adapter); `operators` likewise as owners
    (whoever runs the terminal can read the store anyway)."""

    owners: frozenset[str] = frozenset()
    allow: Mapping[str, frozenset[str]] = field(default_factory=dict)
    members: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    guest_tools: frozenset[str] = frozenset()
    member_tools: frozenset[str] = frozenset()
    owner_tools: frozenset[str] = frozenset()
    group_tools: frozenset[str] = frozenset()
    disabled_tools: frozenset[str] = frozenset()
    group_answers: Literal["addressed", "all"] = "addressed"
    free_chats: frozenset[str] = frozenset()
    addressed_chats: frozenset[str] = frozenset()
    """Chats that are answered only when addressed although all are answered elsewhere."""
    names: tuple[str, ...] = ()
    """Words that address the agent in a room like a mention; whole words, upper or lower case."""
    bots: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an event goes on. `told` is said to the person where it does not and silence would puzzle."""

    role: Role | None
    fate: Literal["go", "silent", "refused"]
    reason: str = ""
    told: str | None = None


class Access:
    """Answers by the settings that are in force now; `settings` may be replaced while running.

    `also` gives a second id of a chat (where a platform has moved it), so that settings may name either.
    """

    def __init__(
        self, settings: AccessSettings, also: Callable[[str, str], str] = lambda _platform, chat: chat
    ) -> None:
        self.settings = settings
        self._also = also
        self.paired: Mapping[str, Literal["guest", "member"]] = {}
        """Persons that an owner has let in by a code; kept up by `gateway.pairing`."""

    def owners(self) -> frozenset[str]:
        """The owners, as persons."""
        return self.settings.owners | self.settings.operators

    def may_pair(self, platform: str) -> bool:
        """Whether codes count on the platform: only where nobody has written an allow-list (B85)."""
        return not self.settings.allow.get(platform)

    def role(self, platform: str, sender_id: str) -> Role | None:
        """The role of a person, or None for a stranger."""
        s = self.settings
        person = person_of(platform, sender_id)
        if person in s.owners or person in s.operators:
            return "owner"
        allowed = s.allow.get(platform, frozenset())
        # whoever speaks in the name of a chat has its id, which a platform may have changed
        if person in s.members or sender_id in allowed or self._also(platform, sender_id) in allowed:
            return "member"
        if person in self.paired and self.may_pair(platform):
            return self.paired[person]
        return "guest" if EVERYBODY in allowed or person in s.bots else None

    def rights(self, role: Role, *, shared: bool) -> Rights:
        """What somebody of that role may use. In a room with others the tools that only owners have
        are left out unless they are named for groups."""
        s = self.settings
        tools = set(s.guest_tools)
        if role in ("member", "owner"):
            tools |= s.member_tools
        if role == "owner":
            own = s.owner_tools - s.member_tools - s.guest_tools
            tools |= (own & s.group_tools) if shared else own
        return Rights(role=role, tools=frozenset(tools - s.disabled_tools))

    def addressed(self, event: MessageEvent) -> bool:
        """Whether a message in a room speaks to us: by mention, by reply to us, or by one of our names."""
        if event.mentions_us or (event.reply_to is not None and event.reply_to.is_ours):
            return True
        return any(
            re.search(rf"(?<!\w){re.escape(name)}(?!\w)", event.text, re.IGNORECASE) for name in self.settings.names
        )

    def _is_free(self, address: ChatAddress) -> bool:
        s = self.settings
        names = {
            f"{address.platform}:{one}" for one in (address.chat_id, self._also(address.platform, address.chat_id))
        }
        if s.group_answers == "all":
            return not names & s.addressed_chats
        return bool(names & s.free_chats)

    def judge(self, event: MessageEvent) -> Verdict:
        """Whether `event` goes on. Pure: no I/O; strangers in a room are not answered at all."""
        s = self.settings
        address, sender = event.address, event.sender
        private = address.chat_kind == "private"
        if sender.is_bot and person_of(address.platform, sender.id) not in s.bots:
            return Verdict(role=None, fate="silent", reason="another bot")
        role = self.role(address.platform, sender.id)
        addressed = private or self.addressed(event)
        explicit = event.kind.value in ("command", "action")
        if role is None:
            person = person_of(address.platform, sender.id)
            return Verdict(
                role=None,
                fate="refused",
                reason="not on the list of people",
                told=f"I may not talk with you: {person} is not on my list. My owner can add that id."
                if addressed
                else None,
            )
        if not (addressed or explicit or self._is_free(address)) and event.kind.value == "message":
            return Verdict(role=role, fate="silent", reason=NOT_ADDRESSED)
        return Verdict(role=role, fate="go")
