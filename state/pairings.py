"""Strangers that were let in by a code: the codes (hashed), the people, the wrong guesses."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime, timedelta

from state.codec import clean, flag, from_micros, to_micros
from state.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingCode:
    """A code that waits for its approval. The code itself is kept nowhere."""

    platform: str
    sender_id: str
    name: str
    salt: bytes
    digest: bytes
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Somebody who was let in."""

    platform: str
    sender_id: str
    name: str
    role: str
    approved_by: str
    created_at: datetime


class Pairings(Repository):
    """A code expires by the boot clock, and with the boot."""

    async def offer(self, code: PairingCode, *, ttl: float, most: int) -> bool:
        """Keep a code. False where that person has one that is good, or `most` wait on the platform.

        One with the same `created_at` takes the place of the earlier: the same message asks again, since
        the answer to it was never committed.
        """
        now, boot, boot_id = to_micros(code.created_at), self._clock.boot(), self._clock.boot_id()

        def run(tx: sqlite3.Connection) -> bool:
            _sweep(tx, boot, boot_id)
            tx.execute(
                "DELETE FROM pairing_codes WHERE platform = ? AND sender_id = ? AND created_at = ?",
                (code.platform, code.sender_id, now),
            )
            waiting = tx.execute(
                "SELECT count(*), coalesce(sum(sender_id = ?), 0) FROM pairing_codes WHERE platform = ?",
                (code.sender_id, code.platform),
            ).fetchone()
            if waiting[1] or waiting[0] >= most:
                return False
            tx.execute(
                "INSERT INTO pairing_codes (platform, sender_id, name, salt, digest, boot_id, expires_at, created_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    code.platform, code.sender_id, clean(code.name), code.salt, code.digest, boot_id, boot + ttl, now,
                ),
            )  # fmt: skip
            return True

        return await self._db.write(run, full=True)

    async def codes(self) -> list[PairingCode]:
        """Those that are good now, oldest first."""
        boot, boot_id = self._clock.boot(), self._clock.boot_id()

        def run(tx: sqlite3.Connection) -> list[PairingCode]:
            query = "SELECT * FROM pairing_codes WHERE boot_id = ? AND expires_at > ? ORDER BY created_at"
            return [
                PairingCode(
                    platform=row["platform"],
                    sender_id=row["sender_id"],
                    name=row["name"],
                    salt=row["salt"],
                    digest=row["digest"],
                    created_at=from_micros(row["created_at"]),
                )
                for row in tx.execute(query, (boot_id, boot))
            ]

        return await self._db.read(run)

    async def approve(self, code: PairingCode, *, role: str, by: str) -> bool:
        """Let the person in and use the code up. False where somebody was quicker, or it has expired."""
        now, boot, boot_id = self._now(), self._clock.boot(), self._clock.boot_id()

        def run(tx: sqlite3.Connection) -> bool:
            used = tx.execute(
                "DELETE FROM pairing_codes WHERE platform = ? AND sender_id = ? AND digest = ?"
                " AND boot_id = ? AND expires_at > ?",
                (code.platform, code.sender_id, code.digest, boot_id, boot),
            )
            if not flag(used):
                return False
            tx.execute(
                "INSERT OR REPLACE INTO paired (platform, sender_id, name, role, approved_by, created_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (code.platform, code.sender_id, code.name, role, clean(by), now),
            )
            return True

        return await self._db.write(run, full=True)

    async def people(self) -> list[Paired]:
        """Everybody who was let in, oldest first."""

        def run(tx: sqlite3.Connection) -> list[Paired]:
            return [
                Paired(
                    platform=row["platform"],
                    sender_id=row["sender_id"],
                    name=row["name"],
                    role=row["role"],
                    approved_by=row["approved_by"],
                    created_at=from_micros(row["created_at"]),
                )
                for row in tx.execute("SELECT * FROM paired ORDER BY created_at, platform, sender_id")
            ]

        return await self._db.read(run)

    async def revoke(self, platform: str, sender_id: str) -> bool:
        """Let somebody in no more, and void a code of theirs. False where there was neither."""

        def run(tx: sqlite3.Connection) -> bool:
            gone = [
                flag(tx.execute(f"DELETE FROM {table} WHERE platform = ? AND sender_id = ?", (platform, sender_id)))
                for table in ("paired", "pairing_codes")
            ]
            return any(gone)

        return await self._db.write(run, full=True)

    async def guess(self, platform: str, *, within: timedelta, here: int, in_all: int) -> int | None:
        """Note a guess as wrong before it is looked at, so that guesses at the same time count too.

        `platform` is where it is made. None where `here` or `in_all` wrong ones were made in that time: it
        must not be looked at. Otherwise the number for `was_right`. On the disk on return.
        """
        now, since = self._now(), to_micros(self._clock.utc() - within)
        before = to_micros(self._clock.utc() - timedelta(days=1))

        def run(tx: sqlite3.Connection) -> int | None:
            tx.execute("DELETE FROM pairing_failures WHERE created_at < ?", (before,))
            query = "SELECT coalesce(sum(platform = ?), 0), count(*) FROM pairing_failures WHERE created_at > ?"
            there, everywhere = tx.execute(query, (platform, since)).fetchone()
            if there >= here or everywhere >= in_all:
                return None
            made = tx.execute("INSERT INTO pairing_failures (platform, created_at) VALUES (?, ?)", (platform, now))
            return made.lastrowid

        return await self._db.write(run, full=True)

    async def was_right(self, guess: int) -> None:
        """That guess was none of the wrong ones."""
        await self._db.write(lambda tx: flag(tx.execute("DELETE FROM pairing_failures WHERE id = ?", (guess,))))


def _sweep(tx: sqlite3.Connection, boot: float, boot_id: str) -> None:
    tx.execute("DELETE FROM pairing_codes WHERE boot_id <> ? OR expires_at <= ?", (boot_id, boot))
