"""Errors of platforms, typed by their remedy. Adapters raise these and no others on purpose.

The SDK's own exception is chained as the cause. `told` is a sentence for the person concerned.
"""

from __future__ import annotations


class AdapterError(Exception):
    """The platform could not do what was asked."""

    told: str = "The platform could not do that."

    def __init__(self, message: str | None = None, *, told: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").splitlines()[0])
        if told is not None:
            self.told = told


class NotReady(AdapterError):
    """The platform cannot be reached now; nothing was sent. Try again with back-off."""

    told = "The platform cannot be reached at the moment."


class AuthFailed(AdapterError):
    """The platform refuses our credentials. The adapter is parked until the configuration changes."""

    told = "The credentials for this platform are refused."


class RetryAfter(AdapterError):
    """The platform asks us to wait; nothing was sent. `seconds` is its own figure.

    `everywhere` is true where the whole account is meant and not only this chat.
    """

    told = "The platform asks us to wait."

    def __init__(self, seconds: float, message: str | None = None, *, everywhere: bool = False) -> None:
        super().__init__(message or f"the platform asks for a wait of {seconds:g} s")
        self.seconds = seconds
        self.everywhere = everywhere


class Rejected(AdapterError):
    """The platform refuses this very message for good; nothing was sent. Sending it again is useless."""

    told = "The platform refuses this message."


class UnparsableMarkup(Rejected):
    """The platform refuses the markup of this chunk; its plain text may be sent once instead."""


class TooLong(Rejected):
    """The platform says that this chunk is too long."""


class NoRights(Rejected):
    """We may not speak there (blocked, kicked, or a missing right)."""

    told = "The bot has no right to write there."


class OutcomeUnknown(AdapterError):
    """The request may or may not have been carried out. Look it up, or send it once more, marked."""

    told = "It is not known whether the platform took the message."


class Gone(AdapterError):
    """The chat or thread does not exist any more. What is meant for it is parked and shown."""

    told = "That chat does not exist any more."
