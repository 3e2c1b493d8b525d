"""One connection with all that belongs to it: every task by name, begun and ended together."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any

from adapters.errors import AuthFailed, NotReady
from adapters.ports import AdapterServices, Inbox
from adapters.slack.api import Api
from adapters.slack.backfill import Backfill
from adapters.slack.files import Files
from adapters.slack.hub import Hub
from adapters.slack.inbound import PLATFORM, Reader
from adapters.slack.link import Link
from adapters.slack.names import Names
from adapters.slack.outbound import Outbound
from adapters.slack.progress import SEEN_EVERY, Progress
from adapters.slack.settings import SlackSettings
from adapters.slack.threads import Threads
from adapters.slack.uploads import Uploads


class Service:
    """Made once the token is known to be good; `run` is called once."""

    def __init__(
        self,
        api: Api,
        me: Mapping[str, Any],
        inbox: Inbox,
        settings: SlackSettings,
        services: AdapterServices,
        *,
        tried: OrderedDict[str, str],
        made: OrderedDict[str, str],
        now: Callable[[], datetime],
        skew: float,
    ) -> None:
        """`me` is the answer of `auth.test`; Slack's clock is `skew` seconds ahead of `now`.
        `tried` and `made` outlive the connection. Raises `NotReady`."""
        self.api = api
        self.user, team = str(me.get("user_id") or ""), str(me.get("team_id") or "")
        if not self.user or not team:
            raise NotReady("Slack does not tell who we are")
        self._settings = settings
        self._names, self.threads = Names(api), Threads(self.user)
        self._names.put(self.user, str(me.get("user") or "") or None)
        reader = Reader(
            team=team,
            bot_user=self.user,
            bot_id=str(me.get("bot_id") or ""),
            dm_threads=settings.dm_threads,
            attachment_bytes=services.attachment_bytes,
            name=self._names.get,
            ours=self.threads.ours,
            place=self.threads.place,
        )
        self._progress = Progress(services.cursors, self.user, lambda: now().timestamp() + skew)
        self._fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        secret = settings.signing_secret if settings.mode == "http" else None
        self.hub = Hub(
            api=api,
            inbox=inbox,
            reader=reader,
            threads=self.threads,
            progress=self._progress,
            signing_secret=None if secret is None else secret.get_secret_value(),
            now=now,
            fatal=self._fatal,
        )
        self._backfill = Backfill(
            api=api,
            reader=reader,
            threads=self.threads,
            progress=self._progress,
            accept=self.hub.accept,
            keep=self.hub.keep,
            named=self._names.put,
            now=now,
            bound=settings.backfill_messages,
        )
        self.outbound = Outbound(
            api,
            self.threads,
            Uploads(api, made),
            previews=settings.link_previews,
            is_own=reader.is_own,
            tried=tried,
            now=now,
        )
        self.files = Files(api, services.files / PLATFORM, services.attachment_bytes)
        self._known = False
        self._up = False

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled, or until something ends it by an `AdapterError`."""
        self._known = await self._progress.load()
        for channel, root in self._progress.threads():
            self.threads.note(channel, root, ours=True)

        def up(gap: float | None) -> None:
            if not self._up:
                self._up = True
                self._backfill.start(first=not self._known)
            elif gap is not None:
                self._backfill.gap(gap)
            ready()

        work: dict[str, Coroutine[Any, Any, None]] = {
            "slack:names": self._names.serve(),
            "slack:cursors": self._progress.serve(),
            "slack:seen": self._keep_seen(),
            "slack:backfill": self._backfill.serve(),
            "slack:link": self._listen(up),
        }
        try:
            await _together(work, self._fatal)
        finally:
            await self._progress.flush()

    async def _listen(self, up: Callable[[float | None], None]) -> None:
        if self._settings.mode == "http":
            up(None)
            await asyncio.get_running_loop().create_future()
        token = self._settings.app_token
        if token is None:
            raise AuthFailed("there is no app token", told="The app token (xapp-) is missing.")
        socket_api = Api(self.api.session, token.get_secret_value(), self._settings.api_base)
        await Link(socket_api, self.hub.from_socket, up).run()

    async def _keep_seen(self) -> None:
        while True:
            await asyncio.sleep(SEEN_EVERY)
            if self._up and not self._progress.gaps():
                self._progress.seen()


async def _together(work: Mapping[str, Coroutine[Any, Any, None]], fatal: asyncio.Future[None]) -> None:
    """Run all of it until one ends or `fatal` is set, then end the others. Raises what the first one raised."""
    tasks = [asyncio.create_task(one, name=name) for name, one in work.items()]
    try:
        done, _ = await asyncio.wait([*tasks, fatal], return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not fatal.cancel():
            fatal.exception()  # it is set: looked at, so that the loop does not complain
