"""The settings tree, but for the platforms' own sections (adapters/<platform>/settings.py) and a model's
(agent_core/models/settings.py). `config.example.yaml` shows every key with its default (equal by test)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator, model_validator

from agent_core.models.settings import ModelSettings, Timeouts
from agent_core.tools.patterns import fault

Busy = Literal["queue", "steer", "interrupt", "collect"]
"""What a message does that arrives while the chat's turn runs: `queue` waits for its end, `steer` joins it
after the next tool call, `interrupt` ends it, `collect` waits and is answered together with its followers."""

TOOL_GROUPS = frozenset(
    ("files", "terminal", "web", "todo", "clarify", "memory", "session_search", "skills", "delegate", "mcp")
)
"""The groups that rights are given by. `mcp:NAME` is one server of the group `mcp`."""

Port = Annotated[int, Field(ge=0, le=65535)]


def _names(value: Any) -> Any:
    """A list of names; a plain word is refused, because it would be read as a list of letters."""
    if isinstance(value, str):
        raise ValueError(f"must be a list: write [{value}], not {value}")  # noqa: TRY004 - pydantic's
    if value is None:
        raise ValueError("must be a list; write [] for none")
    return value


def _groups(value: tuple[str, ...]) -> tuple[str, ...]:
    for name in value:
        if name not in TOOL_GROUPS and not name.startswith("mcp:"):
            raise ValueError(f"{name!r} is no group of tools; there are {', '.join(sorted(TOOL_GROUPS))}")
    return tuple(dict.fromkeys(value))


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]


class Section(BaseModel):
    """A part of the settings: read-only, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class LogSettings(Section):
    """What the daemon writes to standard error, and to a file if wanted."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least grave lines that are written."
    )
    format: Literal["json", "console"] = Field(
        default="json", description="`json` is one object a line; `console` is for reading by eye."
    )
    file: str | None = Field(
        default=None,
        min_length=1,
        description="A file that gets the same lines; a relative path begins at the state folder. null: none.",
    )
    max_bytes: int = Field(
        default=10_000_000, ge=10_000, description="The size at which the file is moved aside, to NAME.1 and so on."
    )
    keep: int = Field(default=5, ge=0, le=1000, description="How many such files are kept.")


class NamedModel(Section):
    """One model; the keys under `model:` and under each name of `models:`."""

    provider: Literal["openai", "anthropic", "embedded", "scripted"] = Field(
        default="embedded", description="`openai`: any compatible endpoint; `embedded`: no key and no network."
    )
    base_url: str | None = Field(
        default=None, pattern=r"^https?://\S+$", description="The endpoint; null is the provider's own."
    )
    api_key: SecretStr | None = Field(default=None, description="The key, as a reference.")
    name: str | None = Field(
        default=None, min_length=1, description="Its name at the endpoint; openai and anthropic need it."
    )
    context_tokens: int | None = Field(
        default=None, ge=512, description="The model's window; null asks the endpoint or assumes the usual one."
    )
    max_tokens: int | None = Field(default=None, ge=1, description="The longest answer; null: as the endpoint has it.")
    stream: bool = Field(default=True, description="Whether answers are read as they are made.")
    tools: Literal["native", "none"] | None = Field(
        default=None, description="Whether the model can call tools; null is what the provider's models can."
    )
    images: bool | None = Field(default=None, description="Whether the model takes pictures; null as for tools.")
    connect_seconds: float = Field(default=10.0, gt=0, le=120, description="The bound for reaching the endpoint.")
    silence_seconds: float = Field(
        default=120.0, gt=0, le=3600, description="The longest wait for the next piece of an answer."
    )
    total_seconds: float = Field(default=600.0, gt=0, le=7200, description="The bound of one whole call.")
    script: str | None = Field(default=None, description="For `scripted`: the file of steps.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.provider in ("openai", "anthropic") and self.name is None:
            raise ValueError(f"the provider {self.provider} needs the name of a model")
        if self.provider == "anthropic" and self.api_key is None:
            raise ValueError("the provider anthropic needs an api_key")
        if self.provider == "scripted" and self.script is None:
            raise ValueError("the provider scripted needs a script")
        return self

    def settings(self) -> ModelSettings:
        """The same as `agent_core` wants it."""
        return ModelSettings(
            provider=self.provider,
            name=self.name or ("SmolLM2-135M-Instruct" if self.provider == "embedded" else "scripted"),
            base_url=self.base_url,
            api_key=self.api_key.get_secret_value() if self.api_key else "",
            context_tokens=self.context_tokens,
            stream=self.stream,
            max_tokens=self.max_tokens,
            timeouts=Timeouts(connect=self.connect_seconds, silence=self.silence_seconds, total=self.total_seconds),
            tools=self.tools,
            images=self.images,
            script=self.script,
        )


class MainModel(NamedModel):
    """The model in use."""

    fallbacks: Names = Field(
        default=(), description="Names from `models` that are tried in this order when the model is unavailable."
    )


class AccessSettings(Section):
    """Who is who. Somebody who is in no list is not answered."""

    owners: Names = Field(default=(), description='The owners as "platform:id"; they may do everything.')
    pairing: bool = Field(default=True, description="Whether a stranger is given a code that an owner can approve.")


class ChatOverride(Section):
    """Settings of one chat; what is null is as everywhere."""

    busy: Busy | None = Field(default=None, description="The busy mode in this chat.")
    sessions: Literal["person", "shared"] | None = Field(
        default=None, description="Whether each person has a session in this group, or all share one."
    )
    answers: Literal["addressed", "all"] | None = Field(
        default=None, description="Whether the bot answers only when it is addressed, or every message."
    )


class ChatSettings(Section):
    """How the agent behaves in a chat."""

    busy: Busy = Field(default="queue", description="What a message does that arrives while a turn runs.")
    group_sessions: Literal["person", "shared"] = Field(
        default="person", description="Whether each person has a session in a group, or all share one."
    )
    thread_sessions: Literal["person", "shared"] = Field(
        default="shared", description="The same for a thread or topic."
    )
    group_answers: Literal["addressed", "all"] = Field(
        default="addressed", description="In groups: answer only mentions and replies to the bot, or every message."
    )
    names: Names = Field(
        default=(), description="Words that address the agent in a group like a mention (whole words, any case)."
    )
    context_messages: int = Field(
        default=0,
        ge=0,
        le=100,
        description="In groups: so many of the unanswered messages before it are shown with an addressed one; "
        "the tools of that turn are those that all of their authors may use.",
    )
    allow_bots: Names = Field(default=(), description='Bots that are answered, as "platform:id".')
    bot_rounds: int = Field(
        default=8, ge=1, le=100, description="A bot that is answered so often within two minutes is left alone for ten."
    )
    collect_seconds: float = Field(
        default=2.0, ge=0, le=60, description="How long `collect` waits for a further message."
    )
    paste_seconds: float = Field(
        default=2.5,
        ge=0,
        le=30,
        description="How long a message as long as the platform allows is waited for its next part.",
    )
    chats: dict[str, ChatOverride] = Field(
        default_factory=dict, description='Settings of single chats, by "platform:chat id".'
    )


class ToolSettings(Section):
    """Who may use which tools. A role has its own list and those of the lesser roles."""

    guests: Names = Field(default=("clarify",), description="What everybody who is answered may use.")
    members: Names = Field(
        default=("memory", "session_search", "todo", "web"), description="What allowed people may use besides."
    )
    owners: Names = Field(default=("files", "terminal"), description="What owners may use besides.")
    groups: Names = Field(default=(), description="Of files, terminal and mcp: what owners may use in group chats too.")
    disabled: Names = Field(default=(), description="What nobody may use; it is subtracted last.")
    root: str = Field(default="~/work", description="The only folder that files and terminal work in.")
    approvals: Literal["ask", "never"] = Field(
        default="ask", description="`ask` an owner before each command; `never` asks nobody (the owner's risk)."
    )
    always_ask: Names = Field(
        default=(), description="Regular expressions; commands that match are asked for although approvals is `never`."
    )
    never_run: Names = Field(
        default=(), description="Regular expressions; commands that match are refused. No sandbox: they stop accidents."
    )
    terminal_seconds: float = Field(default=120.0, gt=0, le=3600, description="The time limit of one command.")
    web_private: Names = Field(
        default=(),
        description="For tests: hosts or host:port that web fetch may reach although they are private addresses.",
    )

    @field_validator("always_ask", "never_run")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if faults := [why for one in value if (why := fault(one)) is not None]:
            raise ValueError("; ".join(faults))
        return value

    @field_validator("guests", "members", "owners", "groups", "disabled")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _groups(value)


class TelemetrySettings(Section):
    """Spans of each message's way, for an OpenTelemetry collector. They hold ids and figures, never words."""

    endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="Where spans are sent (OTLP over HTTP), such as http://127.0.0.1:4318/v1/traces; null: nowhere.",
    )


class LimitSettings(Section):
    """Bounds. Whatever reaches one is told, never dropped in silence."""

    drain_seconds: float = Field(
        default=30.0, ge=0, le=600, description="How long a stop waits for running turns before it interrupts them."
    )
    turn_seconds: float = Field(default=1800.0, gt=0, description="The longest time of one turn.")
    iterations: int = Field(default=60, ge=1, le=1000, description="The most model calls of one turn.")
    retry_seconds: float = Field(default=60.0, ge=0, description="The time one turn may spend on model retries.")
    approval_seconds: float = Field(default=3600.0, gt=0, description="How long a question to a person stays open.")
    concurrent_turns: int = Field(default=256, ge=1, description="The most turns at once; others wait.")
    queue_per_chat: int = Field(default=50, ge=1, description="The most messages that wait in one chat.")
    message_chars: int = Field(default=200_000, ge=1000, description="The longest message that is taken.")
    attachment_bytes: int = Field(default=20_000_000, ge=0, description="The largest attachment that is fetched.")
    files_days: int = Field(
        default=30, ge=0, description="How long files that came or went are kept in the state folder; 0: for ever."
    )
    events_days: int = Field(
        default=90,
        ge=0,
        description="How long events and deliveries that have ended are kept; 0: for ever. Conversations always are.",
    )

    @field_validator("events_days")
    @classmethod
    def _long_enough(cls, value: int) -> int:
        if 0 < value < 7:
            raise ValueError("at least 7: platforms tell again what is days old")
        return value


def tree(model: type[BaseModel]) -> dict[str, Any]:
    """The keys of a settings class, nested, each leaf None: for hints and for the proof of the example."""
    keys: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        inner = nested(field.annotation)
        keys[name] = tree(inner) if inner else None
    return keys


def nested(annotation: Any) -> type[BaseModel] | None:
    """The settings class that a field is made of, or None for a plain value."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
