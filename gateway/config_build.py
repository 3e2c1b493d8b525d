"""From a document to a `Config`: references resolved, sections validated, everything cross-checked."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from adapters.settings import EVERYBODY, PlatformSettings
from agent_core.memory.providers.factory import missing
from gateway.config_faults import ConfigError, Fault, dotted
from gateway.config_memory import PARTS, MemorySettings
from gateway.config_paths import DEFAULT_HOME, absolute
from gateway.config_platforms import known_platforms, missing_adapter, person_fault, platform_settings
from gateway.config_schema import (
    AccessSettings,
    ChatSettings,
    LimitSettings,
    LogSettings,
    MainModel,
    NamedModel,
    TelemetrySettings,
    ToolSettings,
    tree,
)
from gateway.config_secrets import KeyPath, Resolver
from gateway.config_types import Config
from gateway.config_values import effective, every_leaf
from gateway.config_words import unknown_key, words
from gateway.config_yaml import Document, parse

S = TypeVar("S", bound=BaseModel)

SECTIONS: Mapping[str, type[BaseModel]] = {
    "log": LogSettings,
    "model": MainModel,
    "access": AccessSettings,
    "chat": ChatSettings,
    "tools": ToolSettings,
    "limits": LimitSettings,
    "telemetry": TelemetrySettings,
    "memory": MemorySettings,
}


def schema() -> dict[str, Any]:
    """Every key that a file may have, nested, leaves None. `models` and `chat.chats` are leaves: their
    keys are the operator's own."""
    keys: dict[str, Any] = {"home": None}
    keys.update({name: tree(model) for name, model in SECTIONS.items()})
    keys["models"] = None
    keys["platforms"] = {name: tree(model) for name, model in platform_settings().items()}
    return keys


def build(document: Document, faults: Sequence[Fault], *, file: Path, environ: Mapping[str, str]) -> Config:
    """The configuration, or a `ConfigError` with every fault that can be found in one go."""
    builder = _Builder(document, file, environ)
    builder.faults.extend(faults)
    builder.top_level()
    plain = {name: model for name, model in SECTIONS.items() if model is not MemorySettings}
    sections = {name: builder.section(model, (name,)) for name, model in plain.items()} | {"memory": builder.memory()}
    platforms = builder.platforms()
    models, unusable = builder.models()
    builder.cross_check(sections)
    home, home_origin = builder.home()
    if builder.faults or builder.resolver.faults:
        raise ConfigError([*builder.faults, *builder.resolver.faults], file)
    tools = _sure(sections["tools"], ToolSettings)
    model = _sure(sections["model"], MainModel)
    log = _sure(sections["log"], LogSettings)
    shown = {**sections, **{f"platforms.{name}": one for name, one in platforms.items()}}
    shown.update({f"models.{name}": one for name, one in models.items()})
    return Config(
        file=file,
        home=home,
        log=log,
        log_path=None if log.file is None else absolute(log.file, home, environ),
        model=model.settings(),
        fallbacks=model.fallbacks,
        models={name: one.settings() for name, one in models.items()},
        unusable_models=unusable,
        access=_sure(sections["access"], AccessSettings),
        chat=_sure(sections["chat"], ChatSettings),
        tools=tools,
        limits=_sure(sections["limits"], LimitSettings),
        telemetry=_sure(sections["telemetry"], TelemetrySettings),
        memory=_sure(sections["memory"], MemorySettings),
        platforms=platforms,
        root=absolute(tools.root, file.parent, environ),
        secrets=frozenset(builder.resolver.secrets),
        warnings=(*builder.warnings, *builder.resolver.warnings),
        leaves={"home": str(home), **every_leaf(shown)},
        values=effective(shown, document, builder.resolver.origins, file, ("home", str(home), home_origin)),
    )


def find_home(text: str, file: Path, environ: Mapping[str, str]) -> Path:
    """The state folder that a configuration with this text means, whatever else is wrong with it."""
    return _Builder(parse(text)[0], file, environ).home()[0]


def _can_trace() -> bool:
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


def _sure(value: BaseModel | None, model: type[S]) -> S:
    assert isinstance(value, model)  # a section that failed has left a fault, and we are not here
    return value


class _Builder:
    """Collects faults while the parts are made, so that all of them are told at once."""

    def __init__(self, document: Document, file: Path, environ: Mapping[str, str]) -> None:
        self.document = document
        self.file = file
        self.environ = environ
        self.faults: list[Fault] = []
        self.warnings: list[str] = []
        self.resolver = Resolver(document=document, environ=environ, folder=file.parent)

    def fault(self, path: KeyPath, message: str) -> None:
        self.faults.append(Fault(where=dotted(path), line=self.document.line(path), message=message))

    def top_level(self) -> None:
        known = schema()
        for key in self.document.tree:
            if key not in known:
                self.fault((key,), unknown_key(key, (), known))

    def section(self, model: type[S], at: KeyPath, *, use: bool = True, raw: Any = None) -> S | None:
        """One validated section, or None where it has faults. A section that is absent or null has
        its defaults."""
        raw = self.document.tree.get(str(at[0])) if raw is None else raw
        if raw is None:
            raw = {}
        if not isinstance(raw, dict):
            self.fault(at, "must be a group of keys")
            return None
        values = self.resolver.section(raw, model, at, use=use)
        try:
            return model.model_validate(values)
        except ValidationError as exc:
            self._noted(exc, at)
            return None

    def _noted(self, exc: ValidationError, at: KeyPath) -> None:
        for error in exc.errors(include_url=False, include_input=False):
            path = (*at, *error["loc"])
            if any(path[: len(broken)] == broken for broken in self.resolver.broken):
                continue
            if error["type"] == "extra_forbidden":
                self.fault(path, unknown_key(str(path[-1]), path[:-1], schema()))
            else:
                self.fault(path, words(error))

    def platforms(self) -> dict[str, PlatformSettings]:
        raw = self.document.tree.get("platforms")
        classes = platform_settings()
        if raw is None:
            raw = {}
        if not isinstance(raw, dict):
            self.fault(("platforms",), "must be a group of platforms")
            return {}
        for name in raw:
            if name not in classes:
                self.fault(("platforms", name), unknown_key(name, ("platforms",), schema()))
        made: dict[str, PlatformSettings] = {}
        for name, model in classes.items():
            at = ("platforms", name)
            part = raw.get(name)
            enabled = isinstance(part, dict) and part.get("enabled") not in (False, None)
            settings = self.section(model, at, use=enabled, raw={} if part is None else part)
            if enabled and (problem := missing_adapter(name)):
                self.fault((*at, "enabled"), problem)
            if settings is not None:
                made[name] = settings
                if settings.enabled and EVERYBODY in getattr(settings, "allow", ()):
                    self.warnings.append(f'platforms.{name}.allow is ["*"]: everybody there is let in, as a guest')
        return made

    def memory(self) -> MemorySettings | None:
        """The section `memory`. Secrets are resolved for the active provider only."""
        raw = self.document.tree.get("memory")
        if not isinstance(raw, dict):
            return self.section(MemorySettings, ("memory",))
        parts = {}
        for name, kind in PARTS.items():
            part = self.section(kind, ("memory", name), use=raw.get("provider") == name, raw=raw.get(name) or {})
            if part is not None:
                parts[name] = part
        rest = {key: value for key, value in raw.items() if key not in PARTS}
        whole = self.section(MemorySettings, ("memory",), raw=rest or {"provider": "none"})
        return None if whole is None else whole.model_copy(update=parts)

    def models(self) -> tuple[dict[str, NamedModel], dict[str, str]]:
        """The further models. One whose secret cannot be resolved is no fault unless it is a fall-back:
        it is not in use."""
        raw = self.document.tree.get("models")
        made: dict[str, NamedModel] = {}
        unusable: dict[str, str] = {}
        if raw is None:
            return made, unusable
        if not isinstance(raw, dict):
            self.fault(("models",), "must be a group of named models")
            return made, unusable
        main = self.document.tree.get("model")
        fallbacks = main.get("fallbacks") if isinstance(main, dict) else None
        needed = fallbacks if isinstance(fallbacks, list) else []
        for name, part in raw.items():
            before = len(self.resolver.faults)
            settings = self.section(NamedModel, ("models", name), raw={} if part is None else part)
            found = self.resolver.faults[before:]
            absent = {dotted(path) for path in self.resolver.absent}
            if found and name not in needed and all(fault.where in absent for fault in found):
                del self.resolver.faults[before:]
                unusable[name] = found[0].message
            elif settings is not None:
                made[name] = settings
        return made, unusable

    def cross_check(self, sections: Mapping[str, BaseModel | None]) -> None:
        """What one section says about another."""
        model, access, chat = sections["model"], sections["access"], sections["chat"]
        named = self.document.tree.get("models")
        names = set(named) if isinstance(named, dict) else set()
        if isinstance(model, MainModel):
            for index, name in enumerate(model.fallbacks):
                if name not in names:
                    self.fault(("model", "fallbacks", index), f"{name!r} stands not under `models`")
        telemetry = sections["telemetry"]
        if isinstance(telemetry, TelemetrySettings) and telemetry.endpoint and not _can_trace():
            told = "its library is not installed: pip install 'tidings[otel]', or set it to null"
            self.fault(("telemetry", "endpoint"), told)
        memory = sections["memory"]
        if isinstance(memory, MemorySettings) and memory.provider != "none":
            if what := missing(memory.provider):
                self.fault(("memory", "provider"), f"its client is not installed: {what}, or set it to none")
            if key := memory.lacks():
                self.fault(("memory", memory.provider, key), "must be set for this provider")
        if isinstance(access, AccessSettings):
            self._people(access.owners, ("access", "owners"))
        if isinstance(chat, ChatSettings):
            self._people(chat.allow_bots, ("chat", "allow_bots"))
            for name in chat.chats:
                platform = name.partition(":")[0]
                if platform not in known_platforms() or not name.partition(":")[2]:
                    self.fault(("chat", "chats", name), 'must be "platform:chat id"')

    def _people(self, people: Sequence[str], at: KeyPath) -> None:
        for index, person in enumerate(people):
            if problem := person_fault(person):
                self.fault((*at, index), problem)

    def home(self) -> tuple[Path, str]:
        """The state folder and where it is named."""
        named = self.document.tree.get("home")
        written: str | None = None
        if named is not None and not (isinstance(named, str) and named.strip()):
            self.fault(("home",), "must be a folder")
        elif isinstance(named, str):
            written = self.resolver.plain(named.strip(), ("home",))
        override = self.environ.get("TIDINGS_HOME", "").strip()
        if override:
            home = absolute(override, Path.cwd(), self.environ)
            if written and absolute(written, self.file.parent, self.environ) != home:
                self.warnings.append(f"TIDINGS_HOME ({home}) is used, not home: {written} of {self.file.name}")
            return home, "TIDINGS_HOME"
        origin = f"{self.file.name}:{self.document.line(('home',))}" if written else "default"
        return absolute(written or DEFAULT_HOME, self.file.parent, self.environ), origin
