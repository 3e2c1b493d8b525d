"""What the bot can call, other than sending: chats, topics, files, commands, callback queries, webhooks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from telegram.constants import ChatAction, ReactionEmoji

from tests.counterparts.telegram_rules import Refused, message_text
from tests.counterparts.telegram_sending import FILES, Changing, Uploads
from tests.counterparts.telegram_updates import Updates
from tests.counterparts.telegram_world import MOST_BYTES, Chat, Topic, World

JsonDict = dict[str, Any]

TOO_OLD = "query is too old and response timeout expired or query ID is invalid"

TRIVIAL = frozenset(
    {
        *("setmydescription", "setmyshortdescription", "setmyname", "setchatmenubutton", "pinchatmessage"),
        *("unpinchatmessage", "unpinallchatmessages", "setmydefaultadministratorrights", "setchattitle"),
        *("setchatdescription", "unpinallforumtopicmessages", "setmyprofilephoto", "removemyprofilephoto"),
    }
)
"""Methods that answer true and change nothing here; `calls` shows them."""


@dataclass(slots=True)
class Query:
    """A press of a button."""

    id: str
    chat_id: int
    message_id: int
    data: str
    expired: bool = False
    answers: list[JsonDict] | None = None
    """The parameters of each answer."""


class Topics(Changing):
    """The methods about topics."""

    def do_createforumtopic(self, params: JsonDict, _: Uploads) -> JsonDict:
        chat = self._forum(params["chat_id"])
        if not 1 <= len(params["name"]) <= 128:
            raise Refused("TOPIC_TITLE_EMPTY" if not params["name"] else "TOPIC_TITLE_TOO_LONG")
        topic = open_topic(self.world, chat, params["name"], self.world.bot.raw())
        return {"message_thread_id": topic.id, "name": topic.name, "icon_color": 7322096}

    def do_editforumtopic(self, params: JsonDict, _: Uploads) -> bool:
        topic = self._topic(params)
        if params.get("name", topic.name) == topic.name and "icon_custom_emoji_id" not in params:
            raise Refused("TOPIC_NOT_MODIFIED")
        topic.name = params.get("name", topic.name)
        return True

    def do_closeforumtopic(self, params: JsonDict, _: Uploads) -> bool:
        return self._set_closed(params, closed=True)

    def do_reopenforumtopic(self, params: JsonDict, _: Uploads) -> bool:
        return self._set_closed(params, closed=False)

    def do_deleteforumtopic(self, params: JsonDict, _: Uploads) -> bool:
        topic = self._topic(params)
        chat = self.world.chat(params["chat_id"])
        delete_topic(chat, topic.id)
        return True

    def _set_closed(self, params: JsonDict, *, closed: bool) -> bool:
        topic = self._topic(params)
        if topic.closed == closed:
            raise Refused("TOPIC_NOT_MODIFIED")
        topic.closed = closed
        return True

    def _forum(self, chat_id: int | str) -> Chat:
        chat = self.world.writable(chat_id)
        if not chat.is_forum and not (chat.is_private and self.world.abilities["has_topics_enabled"]):
            raise Refused("the chat is not a forum")
        if chat.is_forum and chat.bot != "administrator":
            raise Refused("not enough rights to create a topic")
        return chat

    def _topic(self, params: JsonDict) -> Topic:
        chat = self._forum(params["chat_id"])
        topic = chat.topics.get(params["message_thread_id"])
        if topic is None:
            raise Refused("message thread not found")
        return topic


class Methods(Topics):
    """Runs a method. `run` raises `Refused`; what is not modelled raises `NotImplementedError`."""

    def __init__(self, world: World, updates: Updates) -> None:
        super().__init__(world, updates)
        self.queries: dict[str, Query] = {}
        self.commands: dict[str, list[JsonDict]] = {}
        """The commands by scope and language, as `default:` or `chat:-100...:de`."""
        self.drafts: list[JsonDict] = []
        """The parameters of each `sendMessageDraft`."""
        self.logged_out = False

    async def run(self, method: str, params: JsonDict, uploads: Uploads) -> Any:
        """The result of a method, whose name is not case sensitive."""
        name = method.lower()
        if name == "getupdates":
            return await self.updates.poll(
                params.get("offset", 0),
                params.get("limit", 100),
                params.get("timeout", 0),
                params.get("allowed_updates"),
            )
        if name in TRIVIAL:
            return True
        if name in FILES:
            return self.send_file(FILES[name], params, uploads)
        handler: Callable[[JsonDict, Uploads], Awaitable[Any] | Any] | None = getattr(self, f"do_{name}", None)
        if handler is None:
            raise NotImplementedError(method)
        return handler(params, uploads)

    # the bot itself

    def do_getme(self, _: JsonDict, __: Uploads) -> JsonDict:
        return {**self.world.bot.raw(), **self.world.abilities}

    def do_logout(self, _: JsonDict, __: Uploads) -> bool:
        self.logged_out = True
        return True

    def do_close(self, _: JsonDict, __: Uploads) -> bool:
        return True

    def do_setwebhook(self, params: JsonDict, _: Uploads) -> bool:
        self.updates.set_hook(params, self.world.now)
        return True

    def do_deletewebhook(self, params: JsonDict, _: Uploads) -> bool:
        self.updates.unset_hook(drop=bool(params.get("drop_pending_updates")))
        return True

    def do_getwebhookinfo(self, _: JsonDict, __: Uploads) -> JsonDict:
        return self.updates.info()

    def do_setmycommands(self, params: JsonDict, _: Uploads) -> bool:
        commands = params["commands"]
        if len(commands) > 100:
            raise Refused("too many commands specified")
        for one in commands:
            name = one.get("command", "").removeprefix("/")
            if not (1 <= len(name) <= 32 and name.isascii() and name.replace("_", "a").isalnum() and name.islower()):
                raise Refused("BOT_COMMAND_INVALID")
            if not 1 <= len(one.get("description", "")) <= 256:
                raise Refused("BOT_COMMAND_DESCRIPTION_INVALID")
        self.commands[_scope(params)] = commands
        return True

    def do_getmycommands(self, params: JsonDict, _: Uploads) -> list[JsonDict]:
        return self.commands.get(_scope(params), [])

    def do_deletemycommands(self, params: JsonDict, _: Uploads) -> bool:
        self.commands.pop(_scope(params), None)
        return True

    # files

    def do_getfile(self, params: JsonDict, _: Uploads) -> JsonDict:
        file = self.world.files.get(params["file_id"])
        if file is None:
            raise Refused("wrong file_id or the file is temporarily unavailable")
        if max(file.size, len(file.data)) > MOST_BYTES:
            raise Refused("file is too big")
        file.gone = False
        return {"file_id": file.id, "file_unique_id": file.unique_id, "file_size": file.size, "file_path": file.path}

    # presses, reactions, actions

    def do_answercallbackquery(self, params: JsonDict, _: Uploads) -> bool:
        query = self.queries.get(params["callback_query_id"])
        if query is None or query.expired:
            raise Refused(TOO_OLD)
        if len(params.get("text") or "") > 200:
            raise Refused("MESSAGE_TOO_LONG")
        query.answers = [*(query.answers or []), params]
        return True

    def do_setmessagereaction(self, params: JsonDict, _: Uploads) -> bool:
        chat = self.world.writable(params["chat_id"])
        if params["message_id"] not in chat.messages:
            raise Refused("message to react not found")
        reactions = params.get("reaction") or []
        if len(reactions) > 1:
            raise Refused("REACTIONS_TOO_MANY")
        for one in reactions:
            if one.get("type") != "emoji" or one.get("emoji") not in _REACTIONS:
                raise Refused("REACTION_INVALID")
        chat.reactions[(params["message_id"], self.world.bot.id)] = reactions
        return True

    def do_sendchataction(self, params: JsonDict, _: Uploads) -> bool:
        chat = self.world.writable(params["chat_id"])
        if params["action"] not in _ACTIONS:
            raise Refused("wrong parameter action in request")
        thread = self.world.in_thread(chat, params.get("message_thread_id"), sending=False)
        if chat.type == "channel":
            return True
        chat.actions.append((params["action"], thread))
        return True

    def do_sendmessagedraft(self, params: JsonDict, _: Uploads) -> bool:
        chat = self.world.writable(params["chat_id"])
        if not chat.is_private:
            raise Refused("TEXTDRAFT_PEER_INVALID")
        if not params["draft_id"]:
            raise Refused("RANDOM_ID_INVALID")
        self.world.in_thread(chat, params.get("message_thread_id"))
        text, entities = message_text(params) if params.get("text") else ("", [])
        self.drafts.append({**params, "text": text, "entities": entities})
        return True

    # chats and topics

    def do_getchat(self, params: JsonDict, _: Uploads) -> JsonDict:
        chat = self._seen(params["chat_id"])
        return {**chat.raw(), "accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": _GIFTS}

    def do_getchatmember(self, params: JsonDict, _: Uploads) -> JsonDict:
        chat, user = self._seen(params["chat_id"]), params["user_id"]
        if user == self.world.bot.id:
            return member(self.world.bot.raw(), "member" if chat.is_private else chat.bot, chat)
        person = self.world.people.get(user)
        if person is None:
            raise Refused("user not found" if chat.is_private else "member not found")
        status = "member" if chat.is_private else chat.members.get(user, "left")
        return member(person.raw(), status, chat)

    def do_getchatmembercount(self, params: JsonDict, _: Uploads) -> int:
        chat = self._seen(params["chat_id"])
        return 2 if chat.is_private else len(chat.members) + 1

    def do_getchatadministrators(self, params: JsonDict, _: Uploads) -> list[JsonDict]:
        chat = self._seen(params["chat_id"])
        if chat.is_private:
            raise Refused("there are no administrators in the private chat")
        found = [
            member(self.world.people[user].raw(), status, chat)
            for user, status in chat.members.items()
            if status in ("creator", "administrator")
        ]
        return found + ([member(self.world.bot.raw(), chat.bot, chat)] if chat.bot == "administrator" else [])

    def do_leavechat(self, params: JsonDict, _: Uploads) -> bool:
        chat = self.world.writable(params["chat_id"])
        if chat.is_private:
            raise Refused("chat member status can't be changed in private chats")
        chat.bot = "left"
        return True

    def _seen(self, chat_id: int | str) -> Chat:
        chat = self.world.chat(chat_id)
        if not chat.is_private and chat.migrated_to is None:
            return self.world.writable(chat)
        return chat


_REACTIONS = frozenset(emoji.value for emoji in ReactionEmoji)
_ACTIONS = frozenset(action.value for action in ChatAction)
_GIFTS = dict.fromkeys(("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription"), True) | {
    "gifts_from_channels": True
}
_MAY = (
    *("can_be_edited", "can_manage_chat", "can_change_info", "can_delete_messages", "can_invite_users"),
    *("can_restrict_members", "can_pin_messages", "can_manage_topics", "can_promote_members"),
    *("can_manage_video_chats", "can_post_stories", "can_edit_stories", "can_delete_stories"),
)
_MAY_SEND = (
    *("can_send_messages", "can_send_audios", "can_send_documents", "can_send_photos", "can_send_videos"),
    *("can_send_video_notes", "can_send_voice_notes", "can_send_polls", "can_send_other_messages"),
    *("can_add_web_page_previews", "can_change_info", "can_invite_users", "can_pin_messages", "can_manage_topics"),
    *("can_edit_tag", "can_react_to_messages"),
)


def member(user: JsonDict, status: str, chat: Chat) -> JsonDict:
    """A `ChatMember`."""
    found: JsonDict = {"user": user, "status": status}
    if status in ("creator", "administrator"):
        found["is_anonymous"] = False
    if status == "administrator":
        found |= dict.fromkeys(_MAY, True)
        if chat.type == "channel":
            found |= {"can_post_messages": True, "can_edit_messages": True}
    elif status == "restricted":
        found |= dict.fromkeys(_MAY_SEND, False) | {"is_member": True, "until_date": 0}
        found["can_send_messages"] = chat.can_send
    elif status == "kicked":
        found["until_date"] = 0
    return found


def open_topic(world: World, chat: Chat, name: str, by: JsonDict) -> Topic:
    """A new topic and the service message that opens it."""
    thread = chat.last_message_id + 1
    chat.topics[thread] = Topic(thread, name)
    world.keep(
        chat,
        {
            "from": by,
            "message_thread_id": thread,
            "is_topic_message": True,
            "forum_topic_created": {"name": name, "icon_color": 7322096},
        },
    )
    return chat.topics[thread]


def delete_topic(chat: Chat, thread: int) -> None:
    """The topic is gone with its messages."""
    del chat.topics[thread]
    for number in [at for at, one in chat.messages.items() if one.get("message_thread_id") == thread]:
        del chat.messages[number]


def _scope(params: JsonDict) -> str:
    scope = params.get("scope") or {}
    parts = [
        scope.get("type", "default"),
        scope.get("chat_id"),
        scope.get("user_id"),
        params.get("language_code") or "",
    ]
    return ":".join(str(part) for part in parts if part is not None)
