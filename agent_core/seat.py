"""Which model answers in a turn, and the frozen prompt under which it does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from agent_core import prompt as prompts
from agent_core.context import Replay, extend_dialects
from agent_core.errors import ModelError
from agent_core.models.ports import Capabilities, Request
from agent_core.project import read_project
from agent_core.prompt import Frozen, Profile
from agent_core.translate import dialect_of
from agent_core.turn import TurnContext
from state.audience import Viewer
from state.errors import NotFound
from state.records import Session, TranscriptMessage

log = structlog.get_logger("agent_core.seat")

STAND_IN_SECONDS = 300.0
"""A fall-back model keeps the session for so long: each change of the model reads the whole context anew."""


class Seat:
    """The model of the turn. `open` comes first; `settle` before every request."""

    def __init__(self, context: TurnContext) -> None:
        """`context.models` must not be empty."""
        self._context = context
        self._line = list(context.models)
        self._capabilities: Capabilities | None = None
        self._parent_dialects: tuple[tuple[int, str], ...] = ()
        self._frozen: Frozen | None = None
        self._settled = False
        self.model = self._line.pop(0)
        self.writer = self.model
        """The model in whose dialect rows are written now: the one that the frozen prompt is for."""
        self.boundary: str | None = None
        """Why the prompt was built anew, until somebody takes it (`take_boundary`)."""

    @property
    def waiting(self) -> int:
        """The number of fall-back models that are left."""
        return len(self._line)

    @property
    def takes_images(self) -> bool:
        """False also for a model that could not be asked yet: what is composed now must fit it later."""
        return self._capabilities is not None and self._capabilities.images

    def take_boundary(self) -> str | None:
        """The declared boundary before the next request, once."""
        reason, self.boundary = self.boundary, None
        return reason

    async def open_as_it_is(self, rows: Sequence[TranscriptMessage]) -> None:
        """Like `open`, for a turn that asks no model any more: the model is not asked for its abilities."""
        await self._read()
        if self._frozen is not None:
            for model in self._context.models:
                if dialect_of(model) == self._frozen.dialect:
                    self.model = self.writer = model
                    return
        await self._freeze(rows)

    async def open(self, rows: Sequence[TranscriptMessage]) -> None:
        """Find the model and freeze the prompt for it, if that is not done. A model that cannot be asked
        for its abilities keeps the prompt that is there, or gets a provisional one. Raises no ModelError."""
        await self._read()
        try:
            await self.settle(rows)
        except ModelError as error:
            log.warning("model.not_ready", model=self.model.name, error=str(error))
            await self._freeze(rows)

    async def _read(self) -> None:
        session = await self._session()
        self._frozen = Frozen.parse(session.prompt)
        if self._frozen is None and session.parent_id is not None:
            parent = await self._context.store.sessions.get(session.parent_id)
            frozen = Frozen.parse(parent.prompt) if parent is not None else None
            self._parent_dialects = frozen.dialects if frozen is not None else ()
        self._prefer_stand_in()

    async def settle(self, rows: Sequence[TranscriptMessage]) -> None:
        """Make sure that the abilities of the model are known and the prompt fits them. `rows` are all
        rows of the session so far. Raises `ModelUnavailable`; call it again then. Cheap when done."""
        if self._settled:
            return
        self._capabilities = await self.model.capabilities()
        await self._freeze(rows)
        self._settled = True

    def step_down(self, why: str) -> bool:
        """Go on with the next model; False if there is none."""
        if not self._line:
            return False
        log.warning("model.fell_back", turn=self._context.lease.turn_id, model=self.model.name, error=why)
        self.model = self._line.pop(0)
        self._capabilities = None
        self._settled = False
        return True

    def request(self, rows: Sequence[TranscriptMessage]) -> Request:
        """The request for these rows: stored texts only."""
        assert self._frozen is not None
        images = self._capabilities is None or self._capabilities.images
        replay = Replay(self.model, self._frozen.dialect, self._frozen.dialects, images=images)
        return Request(
            system=self._frozen.system,
            messages=replay.messages(rows),
            tools=self._frozen.tools,
            cache_key=self._context.session.id,
        )

    async def _session(self) -> Session:
        """The row as it is now: another process may have frozen the prompt since the caller read it."""
        session = await self._context.store.sessions.get(self._context.session.id)
        if session is None:
            raise NotFound(f"session {self._context.session.id} does not exist")
        return session

    def _prefer_stand_in(self) -> None:
        frozen, first = self._frozen, self.model
        if frozen is None or frozen.fell_from != first.name:
            return
        if not 0 <= self._now() - frozen.fell_at < STAND_IN_SECONDS:
            return
        for model in self._line:
            if model.name == frozen.model and dialect_of(model) == frozen.dialect:
                self._line.remove(model)
                self._line.insert(0, first)
                self.model = model
                return

    def _now(self) -> float:
        return self._context.clock.utc().timestamp()

    async def _freeze(self, rows: Sequence[TranscriptMessage]) -> None:
        context, model, abilities, old = self._context, self.model, self._capabilities, self._frozen
        profile: Profile | None = None if abilities is None else ("brief" if abilities.brief else "full")
        native = abilities is not None and abilities.tools == "native"
        every = {tool.spec.name: model.wire_tool(tool.spec) for tool in context.registry} if native else {}
        mine = context.registry.for_rights(context.steering.rights(), disabled=context.disabled, native=native)
        allowed = [every[tool.spec.name] for tool in mine]
        dialect = dialect_of(model)
        reason = prompts.boundary(
            old, model=model.name, dialect=dialect, profile=profile, current=tuple(every.values()), allowed=allowed,
            instructions=context.instructions, readers=_readers(context.viewer),
        )
        self.writer = model
        if reason is None:
            return
        # The list only grows: in a room of several people it would otherwise change with every speaker.
        kept = set(allowed) | (set(old.tools) if old is not None else set())
        off = context.disabled
        tools = tuple(
            every[tool.spec.name]
            for tool in context.registry
            if native and every[tool.spec.name] in kept and tool.spec.name not in off and tool.group not in off
        )
        # What the client said once stays until it says otherwise.
        instructions = context.instructions if context.instructions is not None else old.instructions if old else ""
        identity, fault = await asyncio.to_thread(prompts.read_identity, context.home, context.prompt)
        standing = "\n".join([await one.standing(context.viewer) for one in context.standing])
        snapshot = "" if context.memory is None else await context.memory.standing(context.viewer)
        project, blocked = "", ""
        if any(tool.group == "files" for tool in mine):  # who may not read the folder is not told what it says
            project, blocked = await asyncio.to_thread(read_project, context.root)
        built = prompts.build(
            identity, profile=profile or "unknown", settings=context.prompt, has_tools=bool(tools),
            instructions=instructions, today=context.clock.utc().date(), standing=standing, snapshot=snapshot,
            project=project,
        )
        before = old.dialects if old is not None else self._parent_dialects
        since = max((row.id for row in rows), default=-1) + 1
        stands_in = model is not context.models[0]
        self._frozen = Frozen(
            model=model.name,
            dialect=dialect,
            profile=profile or "unknown",
            system=model.wire_system(built.text),
            tools=tools,
            dialects=extend_dialects(before, since, dialect),
            instructions=instructions,
            left_out=" ".join(part for part in (fault, blocked, built.left_out) if part),
            readers=_readers(context.viewer) if snapshot or standing.strip() else "",
            fell_from=context.models[0].name if stands_in else None,
            fell_at=self._now() if stands_in else 0.0,
        )
        self.boundary = reason
        await context.store.sessions.freeze_prompt(
            context.session.id, self._frozen.dump(), reason, lease=context.lease
        )
        log.info(
            "prompt.frozen", session=context.session.id, turn=context.lease.turn_id, reason=reason, model=model.name,
            profile=self._frozen.profile, tools=len(tools),
        )


def _readers(viewer: Viewer) -> str:
    """Who reads a conversation, as one text."""
    return viewer.room if viewer.room is not None else next(iter(viewer.persons), "")
