"""The people of a small Discord, other bots and webhooks among them: what they say and do, as events and history.

Each method that makes a message returns it as it goes over the wire. Channels, people and messages are named by id or
by their raw dicts. With `live=False` it is in history alone: no session is told, neither now nor by RESUME.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from simcord.backend import serializers
from simcord.backend.models import Message, MessageSticker
from simcord.enums import ChannelType, MessageType

from tests.counterparts.discord_world import VOICE_MESSAGE, File, Raw, Ref, World, to_id


class People:
    """See the module."""

    def __init__(self, world: World, guild: int) -> None:
        self._world, self._guild = world, guild
        self.closed: set[int] = set()
        """People who take no direct messages."""

    # who there is

    def person(
        self,
        name: str,
        *,
        bot: bool = False,
        nick: str | None = None,
        global_name: str | None = None,
        guild: Ref | None = None,
        member: bool = True,
    ) -> int:
        """Somebody new, a member of the first guild (or of `guild`); the id."""
        user = self._world.make_user(name, bot=bot, global_name=global_name)
        if member:
            self._world.add_member(self._guild if guild is None else to_id(guild), user.id, nick=nick, announce=True)
        return user.id

    def join(self, person: Ref, guild: Ref | None = None, *, nick: str | None = None) -> None:
        """Somebody becomes a member."""
        self._world.add_member(self._guild if guild is None else to_id(guild), to_id(person), nick=nick, announce=True)

    def leave(self, person: Ref, guild: Ref | None = None) -> None:
        """Somebody is a member no more."""
        self._world.remove_member(self._guild if guild is None else to_id(guild), to_id(person))

    def dm(self, person: Ref) -> int:
        """The channel of direct messages between a person and the bot."""
        return self._world.get_dm_channel(to_id(person)).id

    def close_dms(self, person: Ref, *, closed: bool = True) -> None:
        """Whether the bot is refused with 50007 there."""
        (self.closed.add if closed else self.closed.discard)(to_id(person))

    # messages

    def say(
        self,
        channel: Ref,
        person: Ref,
        text: str = "",
        *,
        reply_to: Ref | None = None,
        attachments: Sequence[File] = (),
        embeds: Sequence[Mapping[str, Any]] = (),
        stickers: Sequence[str] = (),
        forward: Ref | None = None,
        voice: bool = False,
        webhook: str | None = None,
        poll: Any = None,
        live: bool = True,
    ) -> Raw:
        """Post a message. `forward` is a message that is forwarded; `voice` makes the attachment a voice message."""
        world, channel_id = self._world, to_id(channel)
        where = world.get_channel(channel_id)
        reference: dict[str, Any] | None = None
        if reply_to is not None:
            reference = {"message_id": str(to_id(reply_to)), "channel_id": str(channel_id)}
        elif forward is not None:
            source = world.find(to_id(forward))
            reference = {"type": 1, "message_id": str(source.id), "channel_id": str(source.channel_id)}
        if reference is not None and where.guild_id is not None and forward is None:
            reference["guild_id"] = str(where.guild_id)
        message = world.prepare_message(
            channel_id,
            to_id(person),
            text,
            embeds=[dict(embed) for embed in embeds],
            attachments=[world.store_file(channel_id, file, voice=voice) for file in attachments],
            stickers=[MessageSticker(world.snowflake(), name, 1, self._guild) for name in stickers],
            reference=reference,
            flags=VOICE_MESSAGE if voice else 0,
            author_name=webhook,
            webhook_id=to_id(person) if webhook is not None else None,
            poll=poll,
        )
        with self._unheard(unheard=not live):
            world.wake(where)
        world.commit_message(message, broadcast=live)
        return world.raw(message)

    @contextmanager
    def _unheard(self, *, unheard: bool) -> Iterator[None]:
        told = list(self._world.subscribers)
        if unheard:
            self._world.subscribers.clear()
        try:
            yield
        finally:
            self._world.subscribers[:] = told

    def say_as_webhook(self, channel: Ref, name: str, text: str, *, live: bool = True, **more: Any) -> Raw:
        """A message that a webhook posts under a name."""
        hook = self._world.create_webhook(to_id(channel), name, self._world.get_guild(self._guild).owner_id)
        return self.say(channel, hook.id, text, webhook=name, live=live, **more)

    def edit(self, message: Ref, text: str, *, live: bool = True, **fields: Any) -> Raw:
        """Change a message; `fields` as simcord knows them (embeds, components, attachments)."""
        found = self._world.find(to_id(message))
        with self._unheard(unheard=not live):
            self._world.edit_message(found.channel_id, found.id, {"content": text, **fields})
        return self._world.raw(found)

    def unfurl(self, message: Ref, embed: Mapping[str, Any]) -> Raw:
        """What Discord does to a link: an update that adds an embed and is no edit."""
        found = self._world.find(to_id(message))
        found.embeds.append(dict(embed))
        self._world.emit("MESSAGE_UPDATE", dict(serializers.message_payload(self._world, found)))
        return self._world.raw(found)

    def delete(self, message: Ref, *, live: bool = True) -> None:
        """Remove a message."""
        found = self._world.find(to_id(message))
        with self._unheard(unheard=not live):
            self._world.delete_message(found.channel_id, found.id)

    def react(self, message: Ref, person: Ref, emoji: str, *, remove: bool = False) -> None:
        """Add a reaction, or take it back."""
        found = self._world.find(to_id(message))
        self._world.set_reaction(found.channel_id, found.id, emoji, to_id(person), not remove)

    def pin(self, message: Ref, person: Ref) -> Raw:
        """Pin a message; the notice (type 6) that the channel gets."""
        found = self._world.find(to_id(message))
        self._world.set_pinned(found.channel_id, found.id, True, actor_id=to_id(person))
        return self._world.raw(self._newest(found.channel_id))

    def system(self, channel: Ref, person: Ref, kind: MessageType | int, **more: Any) -> Raw:
        """A message of the service: somebody has come (7), boosted (8), …"""
        made = self._world.create_system_message(to_id(channel), MessageType(kind), to_id(person), **more)
        return self._world.raw(made)

    def type(self, channel: Ref, person: Ref) -> None:
        """Somebody types."""
        where = self._world.get_channel(to_id(channel))
        payload = {"channel_id": str(where.id), "user_id": str(to_id(person)), "timestamp": 0}
        self._world.emit("TYPING_START", payload | ({"guild_id": str(where.guild_id)} if where.guild_id else {}))

    def _newest(self, channel_id: int) -> Message:
        return max(self._world.messages[channel_id].values(), key=lambda message: message.id)

    # threads

    def thread(
        self, channel: Ref, person: Ref, name: str, *, message: Ref | None = None, private: bool = False, text: str = ""
    ) -> int:
        """Start a thread, on a message (then it has the message's id) or alone; in a forum, with its first text."""
        world, where = self._world, to_id(channel)
        if message is not None:
            return world.branch(world.find(to_id(message)), name, to_id(person)).id
        if world.get_channel(where).type != ChannelType.FORUM:
            return world.create_thread(where, name, to_id(person), type=12 if private else 11).id
        starter = world.prepare_message(where, to_id(person), text or name)
        thread = world.create_thread(where, name, to_id(person), message_id=starter.id, broadcast=False)
        starter.channel_id = thread.id
        world.announce_thread_create(thread)
        world.commit_message(starter)
        return thread.id

    def archive(self, thread: Ref, *, archived: bool = True, locked: bool = False) -> None:
        """Archive a thread, lock it, or open it again."""
        self._world.edit_channel(to_id(thread), {}, thread_metadata={"archived": archived, "locked": locked})

    def delete_channel(self, channel: Ref) -> None:
        """Remove a channel or a thread."""
        self._world.delete_channel(to_id(channel))
