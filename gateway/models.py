"""The configured models, and which of them answers in a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from agent_core.errors import ModelError
from agent_core.models.factory import make_model
from agent_core.models.ports import Model, Warmable
from agent_core.models.settings import ModelSettings
from agent_core.prompt import Frozen
from gateway.config_types import Config
from state.records import Session

log = structlog.get_logger("gateway.models")

DEFAULT = ""
"""The key of the model under `model:`; those under `models:` have their names."""


class Models:
    """Each model is made when it is first needed."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._made: dict[str, Model] = {}
        self._gone: list[Model] = []

    def names(self) -> list[str]:
        """The names that a client may ask for; the first is the default."""
        return [self._config.model.name, *(n for n in self._config.models if n != self._config.model.name)]

    def _get(self, name: str | None) -> Model:
        key = name if name is not None and name in self._config.models else DEFAULT
        model = self._made.get(key)
        if model is None:
            model = self._made[key] = make_model(_settings(self._config)[key], home=self._config.home)
        return model

    def of(self, session: Session) -> Sequence[Model]:
        """The session's model first, then its fall-backs."""
        first = session.model if session.model is not None else self._begun_with(session)
        line = [first, *([DEFAULT] if session.model is None else []), *self._config.fallbacks]
        return [self._get(name) for name in dict.fromkeys(line)]

    def _begun_with(self, session: Session) -> str:
        """A session keeps the model that it was begun with for as long as that is configured; where it is no
        more the default takes its place, which is a declared boundary ("model changed from … to …")."""
        frozen = Frozen.parse(session.prompt)
        if frozen is None:
            return DEFAULT
        own = frozen.fell_from or frozen.model  # a fall-back that stands in is not the session's own
        if own == self._config.model.name:
            return DEFAULT
        return next((key for key, one in self._config.models.items() if one.name == own), DEFAULT)

    async def warm(self) -> None:
        """Make the default model ready beside the first messages, so that the first turn need not wait for
        an import or a server. Its failure is no fault: the turn will meet it and tell it."""
        model = self._get(None)
        if not isinstance(model, Warmable):
            return
        try:
            await model.warm()
        except ModelError as error:
            log.warning("model.not_ready", model=self._config.model.name, error=str(error))

    def prepare(self, config: Config) -> dict[str, Model]:
        """The models of `config` that stand otherwise in force, to be given to `take`. Blocking (a script is
        read). Raises ValueError or OSError for one that cannot be used."""
        old, new = _settings(self._config), _settings(config)
        return {key: make_model(one, home=config.home) for key, one in new.items() if old.get(key) != one}

    def take(self, config: Config, made: Mapping[str, Model]) -> list[Model]:
        """Go on with these settings. Returns the models that nobody new is given any more; the caller closes
        them when the turns that run have ended."""
        keys = _settings(config).keys()
        kept = {key: model for key, model in self._made.items() if key in keys and key not in made}
        gone = [model for key, model in self._made.items() if key not in kept]
        self._config, self._made = config, {**kept, **made}
        self._gone += gone
        return gone

    async def release(self, gone: Sequence[Model]) -> None:
        """Close what `take` has returned."""
        for model in gone:
            self._gone.remove(model)
            await model.close()

    async def close(self) -> None:
        """Release what they hold."""
        for model in (*self._made.values(), *self._gone):
            await model.close()


def _settings(config: Config) -> dict[str, ModelSettings]:
    return {DEFAULT: config.model, **config.models}
