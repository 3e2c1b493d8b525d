"""Errors of the store, typed by their remedy. No sqlite3 exception leaves `state/`."""

from __future__ import annotations


class StateError(Exception):
    """The store could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").splitlines()[0])


class StoreBusy(StateError):
    """Another process holds the database longer than the bound. Nothing was written; try again."""


class StoreFull(StateError):
    """The disk is full. Nothing was written; make room."""


class StoreCorrupt(StateError):
    """The database file is damaged. Restore a backup, or see `tidings db check`."""


class StoreTooNew(StateError):
    """The database was written by a newer version of Tidings. Upgrade the program."""


class StoreUnusable(StateError):
    """The database cannot be opened or used there (rights, missing folder, file system)."""


class StoreClosed(StateError):
    """The store is closed. A defect of the caller, or the process is ending."""


class LeaseHeld(StateError):
    """Another turn holds the session."""

    def __init__(self, owner: str, turn_id: str, expires_in: float) -> None:
        super().__init__(f"the session is held by {owner} (turn {turn_id}) for {expires_in:.1f} s")
        self.owner = owner
        self.turn_id = turn_id
        self.expires_in = expires_in


class LeaseLost(StateError):
    """The fence has moved on: the turn may write no more. Stop at once; nothing was written."""


class Conflict(StateError):
    """A compare-and-set found something else than expected. Nothing was written; look again."""


class NotFound(StateError):
    """There is no such row."""
