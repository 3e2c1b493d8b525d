"""Buttons, menus, commands and modals: what people do that reaches the bot as INTERACTION_CREATE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simcord.backend import serializers
from simcord.backend.models import Interaction
from simcord.components import walk_components
from simcord.enums import AppCommandType, InteractionType, OptionType
from simcord.interactions import base_payload

from tests.counterparts.discord_world import Raw, Ref, World, to_id


class Interactions:
    """Each method that makes an interaction returns it as it went over the wire; `outcome` says what became of it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def press(self, message: Ref, person: Ref, custom_id: str, *, values: Sequence[str] | None = None) -> Raw:
        """Press a button (or, with `values`, choose in a menu): the interaction, type 3."""
        found = self._world.find(to_id(message))
        part = next((part for part in walk_components(found.components) if part.get("custom_id") == custom_id), None)
        if part is None or part.get("disabled"):
            raise LookupError(f"nothing to press called {custom_id!r}")
        data: dict[str, Any] = {"custom_id": custom_id, "component_type": part["type"], "id": part.get("id", 1)}
        if values is not None:
            data["values"] = list(values)
        payload, record = self._interaction(InteractionType.MESSAGE_COMPONENT, found.channel_id, person, data)
        record.source_message_id = found.id
        payload["message"] = self._world.raw(found)
        self._world.emit("INTERACTION_CREATE", payload)
        return payload

    def slash(self, channel: Ref, person: Ref, name: str, **options: Any) -> Raw:
        """Use a command that the bot has registered ("parent sub" for a subcommand): the interaction, type 2.

        People and channels are given by id, files as (name, MIME type, bytes).
        """
        where = self._world.get_channel(to_id(channel))
        root, *path = name.split()
        command = self._world.find_command(root, where.guild_id)
        if command is None:
            raise LookupError(f"no command {root!r}")
        resolved: dict[str, dict[str, Any]] = {}
        chosen = self._options(command, path, options, resolved, where.id)
        data = {"id": command["id"], "name": root, "type": int(AppCommandType.CHAT_INPUT), "options": chosen}
        if resolved:
            data["resolved"] = resolved
        if "guild_id" in command:
            data["guild_id"] = command["guild_id"]
        payload, _ = self._interaction(InteractionType.APPLICATION_COMMAND, where.id, person, data)
        self._world.emit("INTERACTION_CREATE", payload)
        return payload

    def submit(self, interaction: Raw, person: Ref, **values: str) -> Raw:
        """Fill in the modal that an interaction was answered with: the interaction, type 5."""
        before = self.outcome(interaction)
        if before.modal is None:
            raise LookupError("no modal was shown")
        rows = [
            {"type": 1, "components": [{"type": 4, "custom_id": key, "value": value}]} for key, value in values.items()
        ]
        data = {"custom_id": before.modal["custom_id"], "components": rows}
        payload, record = self._interaction(InteractionType.MODAL_SUBMIT, before.channel_id, person, data)
        if before.source_message_id is not None:
            record.source_message_id = before.source_message_id
            payload["message"] = self._world.raw(self._world.find(before.source_message_id))
        self._world.emit("INTERACTION_CREATE", payload)
        return payload

    def outcome(self, interaction: Raw) -> Interaction:
        """What became of an interaction: `responded`, `response_kind`, `message_id`, `ephemeral`, `followup_ids`."""
        return self._world.interactions[int(interaction["id"])]

    def _interaction(self, kind: InteractionType, channel_id: int, person: Ref, data: Raw) -> tuple[Raw, Interaction]:
        guild = self._world.get_channel(channel_id).guild_id
        record, payload = base_payload(
            self._world, type=kind, channel_id=channel_id, guild_id=guild, user_id=to_id(person), data=data
        )
        return payload, record

    def _options(
        self, node: Mapping[str, Any], path: list[str], given: Mapping[str, Any], resolved: Raw, channel_id: int
    ) -> list[Raw]:
        known = {option["name"]: option for option in node.get("options") or ()}
        if path:
            inner = known[path[0]]
            below = self._options(inner, path[1:], given, resolved, channel_id)
            return [{"name": path[0], "type": inner["type"], "options": below}]
        chosen = []
        for name, value in given.items():
            kind = known[name]["type"]
            chosen.append({"name": name, "type": kind, "value": self._value(kind, value, resolved, channel_id)})
        missing = [name for name, option in known.items() if option.get("required") and name not in given]
        if missing:
            raise LookupError(f"the command needs {missing}")
        return chosen

    def _value(self, kind: int, value: Any, resolved: Raw, channel_id: int) -> Any:
        if kind == OptionType.USER:
            user = self._world.get_user(to_id(value))
            resolved.setdefault("users", {})[str(user.id)] = dict(serializers.user_payload(user))
        elif kind == OptionType.CHANNEL:
            channel = self._world.get_channel(to_id(value))
            payload = {**serializers.channel_payload(self._world, channel), "permissions": "0"}
            resolved.setdefault("channels", {})[str(channel.id)] = payload
        elif kind == OptionType.ATTACHMENT:
            stored = self._world.store_file(channel_id, value)
            resolved.setdefault("attachments", {})[stored["id"]] = stored
            return stored["id"]
        else:
            return value
        return str(to_id(value))
