"""Sessions, their lineage, and which session a key leads to."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from state import owners, rows
from state.codec import clean, pack
from state.errors import Conflict
from state.handoff_rows import end_dead
from state.ids import Owner, RowId, SessionId, SessionKey
from state.lease_rows import guard, refuse_leased
from state.records import BindingState, Session, SessionBinding, TurnLease
from state.repository import Repository
from state.session_rows import bind, close, close_others, find_binding, find_session, make_session, the_binding

_NEWEST = "activity DESC, seq DESC"


class Sessions(Repository):
    """Bindings are changed by compare-and-set on their version only; every change makes it grow."""

    async def binding(self, key: SessionKey) -> SessionBinding | None:
        """The binding of a key, or None."""
        return await self._db.read(lambda tx: find_binding(tx, key))

    async def claim(self, key: SessionKey, owner: Owner, address_json: str, ttl: float = 30.0) -> SessionBinding:
        """Claim the making of the key's session: PENDING with `owner` as its owner means "it is yours".

        A PENDING row of a dead owner or past its expiry is taken over. What is ACTIVE, CLOSED or claimed
        by somebody who may live comes back as it is. `ttl` is in seconds of the boot clock.
        """
        now, boot, boot_id = self._now(), self._clock.boot(), self._clock.boot_id()

        def run(tx: sqlite3.Connection) -> SessionBinding:
            row = tx.execute("SELECT * FROM bindings WHERE key = ?", (key,)).fetchone()
            if row is None:
                tx.execute(
                    "INSERT INTO bindings"
                    " (key, state, claim_owner, claim_boot, claim_expires, address_json, updated_at)"
                    " VALUES (?, 'pending', ?, ?, ?, ?, ?)",
                    (key, owner, boot_id, boot + ttl, clean(address_json), now),
                )
                return the_binding(tx, key)
            if row["state"] != BindingState.PENDING:
                return rows.binding(row)
            holder = row["claim_owner"]
            over = row["claim_boot"] != boot_id or row["claim_expires"] <= boot or owners.is_alive(holder) is False
            if holder != owner and not over:
                return rows.binding(row)
            tx.execute(
                "UPDATE bindings SET claim_owner = ?, claim_boot = ?, claim_expires = ?, address_json = ?,"
                " version = version + ?, updated_at = ? WHERE key = ?",
                (owner, boot_id, boot + ttl, clean(address_json), int(holder != owner), now, key),
            )
            return the_binding(tx, key)

        return await self._db.write(run)

    async def activate(
        self, key: SessionKey, version: int, *, person: str, model: str | None = None, title: str | None = None
    ) -> tuple[SessionBinding, Session]:
        """End a claim of this process with a new session. Conflict where the claim is not ours any more."""
        now = self._now()

        def run(tx: sqlite3.Connection) -> tuple[SessionBinding, Session]:
            found = the_binding(tx, key, version)
            if found.state is not BindingState.PENDING or found.claim_owner != self._owner:
                raise Conflict(f"the binding of {key} is {found.state}, claimed by {found.claim_owner}")
            made = make_session(tx, now, person=person, reason="first message", model=model, title=title)
            return bind(tx, key, made.id, now, None), made

        return await self._db.write(run)

    async def rebind(
        self, key: SessionKey, session_id: SessionId, *, expect_version: int | None, address_json: str | None = None
    ) -> SessionBinding:
        """Make the key lead to another session. `expect_version` None means: the key has no binding yet.

        Raises Conflict, and NotFound where there is no such session or binding.
        """
        now = self._now()

        def run(tx: sqlite3.Connection) -> SessionBinding:
            find_session(tx, session_id)
            if expect_version is None:
                if find_binding(tx, key) is not None:
                    raise Conflict(f"the key {key} is bound already")
            else:
                the_binding(tx, key, expect_version)
            return bind(tx, key, session_id, now, address_json)

        return await self._db.write(run)

    async def rotate(
        self, key: SessionKey, *, person: str, reason: str, expect_version: int | None = None
    ) -> tuple[SessionBinding, Session]:
        """Bind a new session to a key that has a binding. The old session stays and can be resumed."""
        now = self._now()

        def run(tx: sqlite3.Connection) -> tuple[SessionBinding, Session]:
            the_binding(tx, key, expect_version)
            made = make_session(tx, now, person=person, reason=reason)
            return bind(tx, key, made.id, now, None), made

        return await self._db.write(run)

    async def close_binding(self, key: SessionKey, moved_to: str, expect_version: int) -> SessionBinding:
        """ACTIVE -> CLOSED: the session has moved to `moved_to`. Raises Conflict or NotFound."""
        now = self._now()

        def run(tx: sqlite3.Connection) -> SessionBinding:
            found = the_binding(tx, key, expect_version)
            if found.state is not BindingState.ACTIVE:
                raise Conflict(f"the binding of {key} is {found.state}")
            close(tx, key, moved_to, now)
            return the_binding(tx, key)

        return await self._db.write(run)

    async def set_settings(self, key: SessionKey, settings_json: str) -> None:
        """Replace the settings of a chat. Raises NotFound. The version stays: no session has moved."""
        await self._set_binding(key, "settings_json", settings_json)

    async def update_address(self, key: SessionKey, address_json: str) -> None:
        """Say where answers go. Raises NotFound. The version stays."""
        await self._set_binding(key, "address_json", address_json)

    async def _set_binding(self, key: SessionKey, column: str, value: str) -> None:
        def run(tx: sqlite3.Connection) -> None:
            the_binding(tx, key)
            tx.execute(f"UPDATE bindings SET {column} = ? WHERE key = ?", (clean(value), key))

        await self._db.write(run)

    async def get(self, session_id: SessionId) -> Session | None:
        """The session, or None."""
        found = await self._select("id = ?", (session_id,), 1)
        return found[0] if found else None

    async def set_title(self, session_id: SessionId, title: str | None) -> None:
        """Name the session. Raises NotFound."""
        await self._set_session(session_id, "title", None if title is None else clean(title))

    async def set_model(self, session_id: SessionId, name: str | None) -> None:
        """Choose the model of the session (None: the default). Raises NotFound."""
        await self._set_session(session_id, "model", name)

    async def _set_session(self, session_id: SessionId, column: str, value: str | None) -> None:
        def run(tx: sqlite3.Connection) -> None:
            find_session(tx, session_id)
            tx.execute(f"UPDATE sessions SET {column} = ? WHERE id = ?", (value, session_id))

        await self._db.write(run)

    async def freeze_prompt(
        self, session_id: SessionId, prompt: str, reason: str, *, lease: TurnLease | None = None
    ) -> Session:
        """Store the frozen prompt, replacing an earlier one at a declared boundary. Raises NotFound.

        With the lease of the turn that does so, a turn that has lost it raises LeaseLost and writes nothing.
        """

        def run(tx: sqlite3.Connection) -> Session:
            if lease is not None:
                guard(tx, lease, self._clock)
            find_session(tx, session_id)
            tx.execute(
                "UPDATE sessions SET prompt = ?, prompt_reason = ? WHERE id = ?",
                (pack(prompt), clean(reason), session_id),
            )
            return find_session(tx, session_id)

        return await self._db.write(run)

    async def list_for(self, person: str, limit: int = 50) -> list[Session]:
        """The sessions of a person, newest activity first."""
        return await self._select("person = ?", (person,), limit)

    async def list_all(self, limit: int = 50) -> list[Session]:
        """The sessions of everybody, newest activity first."""
        return await self._select("1", (), limit)

    async def by_title(self, person: str | None, title: str) -> list[Session]:
        """Sessions with that title (case of ASCII letters aside), newest activity first; None: of everybody."""
        if person is None:
            return await self._select("title = ? COLLATE NOCASE", (clean(title),), 50)
        return await self._select("title = ? COLLATE NOCASE AND person = ?", (clean(title), person), 50)

    async def fork(
        self, parent_id: SessionId, upto: RowId | None, *, person: str, reason: str, since: RowId | None = None
    ) -> Session:
        """A child session that begins with the parent's rows from `since` up to `upto` (both included).

        The rows are referred to, not copied. `upto` None is the parent's newest row of now: what the
        parent says later is not the child's. Raises NotFound.
        """
        now = self._now()

        def run(tx: sqlite3.Connection) -> Session:
            parent = find_session(tx, parent_id)
            end = upto
            if end is None:
                own = tx.execute("SELECT max(id) FROM transcript WHERE session_id = ?", (parent_id,)).fetchone()[0]
                end = own or parent.parent_upto or RowId(0)
            return make_session(
                tx, now, person=person, reason=reason, model=parent.model, parent=parent, since=since, upto=end
            )

        return await self._db.write(run)

    async def bindings_of(self, session_id: SessionId) -> list[SessionBinding]:
        """Every key that leads (or, CLOSED, led) to the session."""

        def run(tx: sqlite3.Connection) -> list[SessionBinding]:
            found = tx.execute("SELECT * FROM bindings WHERE session_id = ? ORDER BY key", (session_id,))
            return [rows.binding(row) for row in found]

        return await self._db.read(run)

    async def addresses(self, limit: int = 500) -> list[str]:
        """Where people have spoken, as JSON texts, the latest first."""

        def run(tx: sqlite3.Connection) -> list[str]:
            query = "SELECT address_json FROM bindings ORDER BY updated_at DESC LIMIT ?"
            return [row["address_json"] for row in tx.execute(query, (limit,))]

        return await self._db.read(run)

    async def move(self, session_id: SessionId, key: SessionKey, address_json: str, *, moved_to: str) -> SessionBinding:
        """Make `key` lead to the session and close every other key that leads to it, in one transaction.

        Raises Conflict where a turn or a hand-off runs on the session, and NotFound. On the disk on return.
        """
        now = self._now()

        def run(tx: sqlite3.Connection) -> SessionBinding:
            find_session(tx, session_id)
            refuse_leased(tx, session_id, self._clock)
            end_dead(tx, self._clock, now, session_id=session_id)
            query = "SELECT 1 FROM handoffs WHERE session_id = ? AND state IN ('pending', 'running')"
            if tx.execute(query, (session_id,)).fetchone() is not None:
                raise Conflict("the session is being handed off")
            close_others(tx, session_id, key, moved_to, now)
            return bind(tx, key, session_id, now, address_json)

        return await self._db.write(run, full=True)

    async def last_on(self, platform: str) -> SessionBinding | None:
        """The newest binding on that platform that leads, or (CLOSED) led, to a session."""

        def run(tx: sqlite3.Connection) -> SessionBinding | None:
            row = tx.execute(
                "SELECT b.* FROM bindings b JOIN sessions s ON s.id = b.session_id"
                " WHERE b.state IN ('active', 'closed') AND json_extract(b.address_json, '$.platform') = ?"
                " ORDER BY s.activity DESC, s.seq DESC, b.updated_at DESC LIMIT 1",
                (platform,),
            ).fetchone()
            return None if row is None else rows.binding(row)

        return await self._db.read(run)

    async def lineage(self, session_id: SessionId) -> list[SessionId]:
        """The session and its ancestors, the root first; empty where there is no such session."""

        def run(tx: sqlite3.Connection) -> list[SessionId]:
            found = tx.execute(
                "WITH RECURSIVE line (id, parent_id, depth) AS ("
                " SELECT id, parent_id, 0 FROM sessions WHERE id = ?"
                " UNION ALL SELECT s.id, s.parent_id, depth + 1 FROM line JOIN sessions s ON s.id = line.parent_id)"
                " SELECT id FROM line ORDER BY depth DESC",
                (session_id,),
            )
            return [SessionId(row[0]) for row in found]

        return await self._db.read(run)

    async def _select(self, where: str, values: Sequence[object], limit: int) -> list[Session]:
        query = f"SELECT * FROM sessions WHERE {where} ORDER BY {_NEWEST} LIMIT ?"

        def run(tx: sqlite3.Connection) -> list[Session]:
            return [rows.session(row) for row in tx.execute(query, (*values, limit))]

        return await self._db.read(run)
