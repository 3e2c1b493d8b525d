"""What goes out: one platform message a chunk, or an error typed by its remedy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

import structlog
from telegram import (
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputFile,
    LinkPreviewOptions,
    Message,
    MessageEntity,
    ReplyParameters,
)
from telegram.constants import ChatAction, ParseMode

from adapters.errors import Gone, Rejected
from adapters.events import Attachment, ChatAddress, Receipt, RenderedChunk
from adapters.ports import Moves
from adapters.telegram.buttons import rows
from adapters.telegram.errors import Refusal, translate
from adapters.telegram.files import read_for_sending
from adapters.telegram.ids import PLATFORM, Place, message_id_of, number_in, place_of
from adapters.telegram.link import Api, Link
from adapters.telegram.markup import MENTION, units
from adapters.telegram.render import Said, read_said

log = structlog.get_logger("adapters.telegram")

T = TypeVar("T")

PHOTO = 10 * 2**20
"""Bytes of a picture that is sent as one (core.telegram.org/bots/api#sendphoto)."""
GetLink = Callable[[], Link]
"""The connection; raises `NotReady` where there is none."""


class Outbound:
    """Sends, changes and takes back messages. Every method makes its change once or raises an `AdapterError`."""

    def __init__(self, link: GetLink, moves: Moves, *, link_previews: bool) -> None:
        self._link = link
        self._moves = moves
        self._preview = LinkPreviewOptions(is_disabled=not link_previews)

    async def send(self, address: ChatAddress, chunk: RenderedChunk, reply_to: str | None) -> Receipt:
        """Send a chunk. A chat that has moved is followed once, and its new id is remembered first (B42)."""
        said = read_said(chunk)
        data = None if said.media is None else await read_for_sending(said.media)
        place = place_of(self._moves, address)
        try:
            message = await self._put(address, place, said, data, reply_to)
        except Refusal as error:
            if error.moved_to is None:
                raise translate(error) from error
            await self._moves.moved(PLATFORM, str(place.chat), error.moved_to)
            log.info("telegram.chat_moved", chat=address.chat_id)
            place = replace(place, chat=int(error.moved_to))
            try:
                message = await self._put(address, place, said, data, reply_to)
            except Refusal as second:
                raise translate(second) from second
        number = message_id_of(self._moves, place.chat, message.message_id)
        return Receipt(message_ids=(number,), sent_at=datetime.now(UTC))

    async def _put(
        self, address: ChatAddress, place: Place, said: Said, data: bytes | None, reply_to: str | None
    ) -> Message:
        number = None if reply_to is None else number_in(reply_to, address, place.chat)
        # a message that is gone meanwhile must not cost the answer to it
        reply = None if number is None else ReplyParameters(number, allow_sending_without_reply=True)
        if said.media is None or data is None:
            return await self._link().call(
                lambda bot: bot.send_message(
                    place.chat,
                    said.text,
                    parse_mode=ParseMode.HTML if said.html else None,
                    entities=None if said.html else _hushed(said.text),
                    message_thread_id=place.thread,
                    reply_parameters=reply,
                    reply_markup=_keyboard(said),
                    link_preview_options=self._preview,
                )
            )
        return await self._put_file(place, said, said.media, data, reply)

    async def _put_file(
        self, place: Place, said: Said, media: Attachment, data: bytes, reply: ReplyParameters | None
    ) -> Message:
        """A file in the form that fits it; as a document where Telegram does not want it in that form."""
        form = _form(media, len(data))
        try:
            return await self._link().call(_sending(form, place, said, media, data, reply))
        except Refusal as error:
            found = translate(error)
            plain = type(found) is Rejected or error.says("voice_messages_forbidden", "video_messages_forbidden")
            if form == "document" or error.moved_to is not None or not plain:
                raise
            log.info("telegram.sent_as_document", kind=media.kind, error=str(found))
        return await self._link().call(_sending("document", place, said, media, data, reply))

    async def edit(self, address: ChatAddress, message_id: str, chunk: RenderedChunk) -> None:
        """Replace the text and the buttons of a message. Unchanged is a success."""
        said = read_said(chunk)
        if said.media is not None:
            raise Rejected("a file cannot take the place of a text")
        place = place_of(self._moves, address)
        number = self._mine(message_id, address, place)
        try:
            await self._link().call(
                lambda bot: bot.edit_message_text(
                    said.text,
                    place.chat,
                    number,
                    parse_mode=ParseMode.HTML if said.html else None,
                    entities=None if said.html else _hushed(said.text),
                    reply_markup=_keyboard(said),
                    link_preview_options=self._preview,
                )
            )
        except Refusal as error:
            if error.says("message is not modified"):
                return
            raise await self._after(error, place) from error

    async def delete(self, address: ChatAddress, message_id: str) -> None:
        """Take a message back. Already gone is a success."""
        place = place_of(self._moves, address)
        number = self._mine(message_id, address, place)
        try:
            await self._link().call(lambda bot: bot.delete_message(place.chat, number))
        except Refusal as error:
            if error.says("message to delete not found", "message_id_invalid"):
                return
            raise await self._after(error, place) from error

    async def typing(self, address: ChatAddress) -> None:
        """Show that we are at work, for about five seconds."""
        place = place_of(self._moves, address, typing=True)
        await self._link().ask(
            lambda bot: bot.send_chat_action(place.chat, ChatAction.TYPING, message_thread_id=place.thread)
        )

    def _mine(self, message_id: str, address: ChatAddress, place: Place) -> int:
        number = number_in(message_id, address, place.chat)
        if number is None:
            raise Gone(f"the message {message_id} lies in a chat that exists no more")
        return number

    async def _after(self, error: Refusal, place: Place) -> Exception:
        """The error for a refusal; the messages of a chat that has moved stay behind."""
        if error.moved_to is not None:
            await self._moves.moved(PLATFORM, str(place.chat), error.moved_to)
            return Gone("the chat has moved; its old messages cannot be changed")
        return translate(error)


def _keyboard(said: Said) -> InlineKeyboardMarkup | None:
    if not said.buttons:
        return None
    return InlineKeyboardMarkup(
        [[InlineKeyboardButton(label, callback_data=data) for label, data in row] for row in rows(list(said.buttons))]
    )


def _hushed(text: str) -> list[MessageEntity] | None:
    """Marks names in a text without markup as code: nobody is called by what a model writes."""
    found = [
        MessageEntity(MessageEntity.CODE, units(text[: one.start()]), units(one[0])) for one in MENTION.finditer(text)
    ]
    return found or None


def _form(media: Attachment, size: int) -> str:
    match media.kind:
        case "image" if size <= PHOTO and media.mime in ("image/png", "image/jpeg", "image/webp"):
            return "photo"
        case "voice" if media.mime in ("audio/ogg", "audio/opus", "application/ogg") or media.name.endswith(".ogg"):
            return "voice"
        case "audio" | "voice" if media.mime in ("audio/mpeg", "audio/mp3", "audio/mp4", "audio/x-m4a", "audio/m4a"):
            return "audio"
        case "video" if media.mime == "video/mp4":
            return "video"
        case "sticker" if media.mime in ("image/webp", "video/webm", "application/x-tgsticker"):
            return "sticker"
        case _:
            return "document"


def _sending(
    form: str, place: Place, said: Said, media: Attachment, data: bytes, reply: ReplyParameters | None
) -> Callable[[Api], Awaitable[Message]]:
    """The call that sends a file in a form. core.telegram.org/bots/api#sendphoto and the ones after it."""
    common = {"message_thread_id": place.thread, "reply_parameters": reply, "reply_markup": _keyboard(said)}
    caption = {"caption": said.text or None, "parse_mode": ParseMode.HTML if said.html and said.text else None}
    file = InputFile(data, filename=media.name)

    def call(bot: Api) -> Awaitable[Message]:
        match form:
            case "photo":
                return bot.send_photo(place.chat, file, **common, **caption)  # type: ignore[arg-type]
            case "voice":
                return bot.send_voice(place.chat, file, **common, **caption)  # type: ignore[arg-type]
            case "audio":
                return bot.send_audio(place.chat, file, **common, **caption)  # type: ignore[arg-type]
            case "video":
                return bot.send_video(place.chat, file, **common, **caption)  # type: ignore[arg-type]
            case "sticker":
                return bot.send_sticker(place.chat, file, **common)  # type: ignore[arg-type]
            case _:
                return bot.send_document(place.chat, file, disable_content_type_detection=True, **common, **caption)  # type: ignore[arg-type]

    return call
