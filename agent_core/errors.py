"""Errors of the agent, typed by their remedy. `told` is the sentence for the person."""

from __future__ import annotations


class AgentError(Exception):
    """The agent could not do what was asked."""

    told: str = "Something went wrong with this turn."

    def __init__(self, message: str | None = None, *, told: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").splitlines()[0])
        if told is not None:
            self.told = told


class ModelError(AgentError):
    """The model gave no usable answer."""

    told = "The model gave no usable answer."


class ModelUnavailable(ModelError):
    """Passing fault (network, 5xx, overload, broken stream). Try again, after `retry_after` s if given."""

    told = "The model cannot be reached at the moment."

    def __init__(
        self, message: str | None = None, *, retry_after: float | None = None, told: str | None = None
    ) -> None:
        super().__init__(message, told=told)
        self.retry_after = retry_after


class ModelRefused(ModelError):
    """The provider refuses this request for good (bad request, content filter). Do not repeat it."""

    told = "The model refused this request."


class ModelKeyBad(ModelError):
    """The provider refuses our key or plan. Nothing helps but a change of the configuration."""

    told = "The model's key is refused. The operator has to set a valid key."


class ContextFull(ModelError):
    """The request is larger than the model's window. Compact, or start a new session."""

    told = "This conversation no longer fits into the model's window. Start a new one with /new."


class Interrupted(AgentError):
    """The turn was ended from outside."""

    told = "Stopped."


class BudgetSpent(AgentError):
    """The turn has used up its iterations, retries or time."""

    told = "I stopped because this turn used up its budget of steps."
