"""Sending, editing and deleting messages, as the bot does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.counterparts.telegram_rules import Refused, check_keyboard, formatted, message_caption, message_text
from tests.counterparts.telegram_updates import Updates
from tests.counterparts.telegram_world import Chat, StoredFile, World, kind_of

JsonDict = dict[str, Any]

BIGGEST_PHOTO = 10 * 2**20
NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current "
    "content and reply markup of the message"
)
WRONG_FILE = "wrong file identifier/HTTP URL specified"
_IMAGES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"RIFF")
_RIGHTS = {
    "photo": "photos", "document": "documents", "audio": "music", "voice": "voice notes", "video": "videos",
    "animation": "animations", "sticker": "stickers", "video_note": "video notes",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Upload:
    """A part of a multipart body that is a file."""

    filename: str
    mime: str
    data: bytes


Uploads = Mapping[str, Upload]

FILES = {f"send{kind.replace('_', '')}": kind for kind in _RIGHTS}
"""The methods that send a file, in lower case, and its kind."""


class Sending:
    """The methods that make messages of the bot."""

    def __init__(self, world: World, updates: Updates) -> None:
        self.world = world
        self.updates = updates

    def do_sendmessage(self, params: JsonDict, _: Uploads) -> JsonDict:
        chat = self.world.writable(params["chat_id"])
        text, entities = message_text(params)
        if not chat.can_send and chat.bot != "administrator":
            raise Refused("not enough rights to send text messages to the chat")
        content: JsonDict = {"text": text}
        if entities:
            content["entities"] = entities
        return self._add(chat, params, content)

    def do_sendlocation(self, params: JsonDict, _: Uploads) -> JsonDict:
        chat = self.world.writable(params["chat_id"])
        place = {"latitude": float(params["latitude"]), "longitude": float(params["longitude"])}
        return self._add(chat, params, {"location": place})

    def do_sendcontact(self, params: JsonDict, _: Uploads) -> JsonDict:
        chat = self.world.writable(params["chat_id"])
        fields = ("phone_number", "first_name", "last_name", "vcard")
        return self._add(chat, params, {"contact": {name: params[name] for name in fields if params.get(name)}})

    def do_sendmediagroup(self, params: JsonDict, uploads: Uploads) -> list[JsonDict]:
        chat = self.world.writable(params["chat_id"])
        media = params["media"]
        if not media:
            raise Refused("there are no messages to send")
        if len(media) > 10:
            raise Refused("too many messages to send as an album")
        kinds = {one["type"] for one in media}
        for kind in ("audio", "document"):
            if kind in kinds and len(kinds) > 1:
                raise Refused(f"{kind} can't be mixed with other media types")
        album = str(13000000000000000 + self.world.number())
        contents = [self._media(one, uploads) for one in media]
        return [self._add(chat, params, {**content, "media_group_id": album}) for content in contents]

    def send_file(self, kind: str, params: JsonDict, uploads: Uploads) -> JsonDict:
        """`sendPhoto`, `sendDocument` and so on."""
        chat = self.world.writable(params["chat_id"])
        caption, entities = message_caption(params)
        if not chat.can_send_media and chat.bot != "administrator":
            raise Refused(f"not enough rights to send {_RIGHTS[kind]} to the chat")
        content = self._file_content(kind, params.get(kind), uploads.get(kind), uploads)
        if caption:
            content["caption"] = caption
        if entities:
            content["caption_entities"] = entities
        return self._add(chat, params, content)

    def _media(self, media: JsonDict, uploads: Uploads) -> JsonDict:
        caption, entities = message_caption(media)
        content = self._file_content(media["type"], media.get("media"), None, uploads)
        if caption:
            content["caption"] = caption
        if entities:
            content["caption_entities"] = entities
        return content

    def _file_content(self, kind: str, value: Any, upload: Upload | None, uploads: Uploads) -> JsonDict:
        if isinstance(value, str) and value.startswith("attach://"):
            upload = uploads.get(value.removeprefix("attach://"))
            if upload is None:
                raise Refused(WRONG_FILE)
        if upload is None:
            kept = self.world.files.get(value) if isinstance(value, str) else None
            if kept is None:
                if not value:
                    raise Refused(f"there is no {kind.replace('_', ' ')} in the request")
                raise Refused(WRONG_FILE)
            return file_content(kind, kept)
        if not upload.data:
            raise Refused("file must be non-empty")
        if kind == "photo":
            if len(upload.data) > BIGGEST_PHOTO:
                raise Refused(f"file of size {len(upload.data)} bytes is too big for a photo; "
                              f"the maximum size is {BIGGEST_PHOTO} bytes")  # fmt: skip
            if not upload.data.startswith(_IMAGES):
                raise Refused("IMAGE_PROCESS_FAILED")
        kept = self.world.store(kind, upload.data, name=upload.filename, mime=upload.mime)
        return file_content(kind, kept)

    def _add(self, chat: Chat, params: JsonDict, content: JsonDict) -> JsonDict:
        if params.get("message_thread_id"):
            self.world.in_thread(chat, params["message_thread_id"])
        reply = self._reply(chat, params.get("reply_parameters"))
        replied = reply.pop("reply_to", None)
        wanted = params.get("message_thread_id") or self.world.thread_of(chat, replied)
        thread = self.world.in_thread(chat, wanted)
        markup = params.get("reply_markup")
        check_keyboard(markup)
        placed = self.world.place(chat, thread, replied)
        sender: JsonDict = {"from": self.world.bot.raw()}
        if chat.type == "channel":
            sender = {"sender_chat": chat.raw()}
        message = {**sender, **placed, **reply, **content}
        if markup and "inline_keyboard" in markup:
            message["reply_markup"] = markup
        kept = self.world.keep(chat, message, mine=True)
        self.updates.on_change()
        return kept

    def _reply(self, chat: Chat, wanted: JsonDict | None) -> JsonDict:
        if not wanted:
            return {}
        source = self.world.chat(wanted["chat_id"]) if wanted.get("chat_id") else chat
        replied = source.messages.get(wanted["message_id"])
        if replied is None:
            if wanted.get("allow_sending_without_reply") and source is chat:
                return {}
            raise Refused("message to be replied not found")
        found: JsonDict = {}
        if quote := wanted.get("quote"):
            text, _ = formatted({"text": quote, "parse_mode": wanted.get("quote_parse_mode")})
            at = replied.get("text", replied.get("caption", "")).find(text)
            if at < 0:
                raise Refused("QUOTE_TEXT_INVALID")
            found["quote"] = {"text": text, "position": at, "is_manual": True}
        if source is not chat:
            origin = {"type": "chat", "sender_chat": source.raw(), "date": replied["date"]}
            return {**found, "external_reply": {"origin": origin, "message_id": replied["message_id"]}}
        return {**found, "reply_to": replied["message_id"]}


class Changing(Sending):
    """The methods that change and remove messages."""

    def do_editmessagetext(self, params: JsonDict, _: Uploads) -> JsonDict:
        chat, message = self._editable(params)
        text, entities = message_text(params)
        if "text" not in message:
            raise Refused("there is no text in the message to edit")
        return self._change(chat, message, {"text": text, "entities": entities}, params)

    def do_editmessagecaption(self, params: JsonDict, _: Uploads) -> JsonDict:
        chat, message = self._editable(params)
        caption, entities = message_caption(params)
        if kind_of(message) in ("text", "sticker", "location", "contact", "service"):
            raise Refused("there is no caption in the message to edit")
        return self._change(chat, message, {"caption": caption, "caption_entities": entities}, params)

    def do_editmessagereplymarkup(self, params: JsonDict, _: Uploads) -> JsonDict:
        chat, message = self._editable(params)
        return self._change(chat, message, {}, params)

    def do_editmessagemedia(self, params: JsonDict, uploads: Uploads) -> JsonDict:
        chat, message = self._editable(params)
        old = kind_of(message)
        content: JsonDict = {"caption": "", "caption_entities": [], old: None}
        content |= {"text": None, "entities": None, "document": None}
        content |= self._media(params["media"], uploads)
        return self._change(chat, message, content, params)

    def _editable(self, params: JsonDict) -> tuple[Chat, JsonDict]:
        if params.get("inline_message_id"):
            raise Refused("MESSAGE_ID_INVALID")
        chat = self.world.writable(params.get("chat_id", ""))
        if not params.get("message_id"):
            raise Refused("message identifier is not specified")
        message = chat.messages.get(params["message_id"])
        if message is None:
            raise Refused("message to edit not found")
        if params["message_id"] not in chat.mine or kind_of(message) == "service":
            raise Refused("message can't be edited")
        return chat, message

    def _change(self, chat: Chat, message: JsonDict, content: JsonDict, params: JsonDict) -> JsonDict:
        markup = params.get("reply_markup")
        check_keyboard(markup)
        changed = {**message, **content, "reply_markup": markup}
        if not (markup or {}).get("inline_keyboard"):
            changed["reply_markup"] = None
        changed = {name: value for name, value in changed.items() if value not in (None, [], "")}
        if changed == message:
            raise Refused(NOT_MODIFIED)
        before = message.get("text", message.get("caption", ""))
        if changed.get("text", changed.get("caption", "")) != before:
            chat.history.setdefault(message["message_id"], []).append(before)
        changed["edit_date"] = int(self.world.now())
        chat.messages[message["message_id"]] = changed
        self.updates.on_change()
        return changed

    def do_deletemessage(self, params: JsonDict, _: Uploads) -> bool:
        chat = self.world.writable(params["chat_id"])
        message = chat.messages.get(params["message_id"])
        if message is None:
            raise Refused("message to delete not found")
        if not (params["message_id"] in chat.mine or chat.is_private or chat.bot == "administrator"):
            raise Refused("message can't be deleted")
        del chat.messages[params["message_id"]]
        self.updates.on_change()
        return True

    def do_deletemessages(self, params: JsonDict, _: Uploads) -> bool:
        if not 1 <= len(params["message_ids"]) <= 100:
            raise Refused("message identifiers are not specified")
        chat = self.world.writable(params["chat_id"])
        for number in params["message_ids"]:
            chat.messages.pop(number, None)
        self.updates.on_change()
        return True


def file_content(kind: str, file: StoredFile, *, width: int = 640, height: int = 480, duration: int = 3,
                 emoji: str = "👍") -> JsonDict:  # fmt: skip
    """The field of a message that tells of `file`."""
    raw: JsonDict = {"file_id": file.id, "file_unique_id": file.unique_id, "file_size": file.size}
    if kind == "photo":
        thumb = {**raw, "file_id": f"{file.id}-s", "file_unique_id": f"{file.unique_id}s", "file_size": 900}
        return {"photo": [{**thumb, "width": 90, "height": 68}, {**raw, "width": width, "height": height}]}
    if kind in ("document", "audio", "voice", "video", "animation") and file.mime:
        raw["mime_type"] = file.mime
    if kind in ("document", "audio", "video", "animation") and file.name:
        raw["file_name"] = file.name
    if kind in ("audio", "voice", "video", "animation", "video_note"):
        raw["duration"] = duration
    if kind in ("video", "animation"):
        raw |= {"width": width, "height": height}
    if kind == "video_note":
        raw["length"] = 240
    if kind == "sticker":
        raw |= {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False, "emoji": emoji}
    found = {kind: raw}
    if kind == "animation":  # told twice, for old clients
        found["document"] = {name: raw[name] for name in raw if name not in ("duration", "width", "height")}
    return found
