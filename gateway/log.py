"""Structured logs on standard error and, if wanted, in a file, each through a bounded queue and a thread of its own.

Every line passes `gateway.redact`. Message bodies are never logged: code logs ids and lengths. A
standard error that nobody reads (a full pipe) stalls the writer thread and nothing else; what does
not fit into the queue is dropped, counted, and told by the next line that gets through. Neither waits for the other.
"""

from __future__ import annotations

import atexit
import json
import logging
import sys
import threading
from collections import deque
from collections.abc import Iterable, MutableMapping
from typing import Any, Literal, Protocol

import structlog

from gateway.log_file import FileSettings, LogFile
from gateway.redact import Redactor

_MAX_LINES = 10_000
_MAX_LINE_CHARS = 64_000
_BODIES = frozenset(("text", "body", "content", "prompt", "arguments", "payload", "message_text"))
"""Fields that would hold what people say: their length is logged instead."""
_QUIET = dict.fromkeys(
    ("asyncio", "aiohttp.access", "markdown_it", "httpx", "httpcore", "httpx2", "httpcore2", "openai", "anthropic"),
    logging.WARNING,
)
"""Libraries whose lines below this level are never of use."""


Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "console"]


class Stream(Protocol):
    """Where a writer writes to."""

    def write(self, text: str, /) -> object:
        """Write it whole, or raise an OSError or ValueError."""
        ...

    def flush(self) -> object:
        """Bring it out."""
        ...


class Writer:
    """Writes lines from a thread. `write` never blocks; `close` waits at most `wait` seconds."""

    def __init__(self, stream: Stream, *, limit: int = _MAX_LINES) -> None:
        self._stream = stream
        self._limit = limit
        self._lines: deque[str] = deque()
        self._wake = threading.Condition()
        self._dropped = 0
        self._closing = False
        self._idle = True
        self.dropped_total = 0
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Queue one line (without its line break)."""
        with self._wake:
            if len(self._lines) >= self._limit:
                self._dropped += 1
                self.dropped_total += 1
                return
            self._lines.append(line)
            self._wake.notify()

    def flush(self, wait: float = 1.0) -> bool:
        """Wait until everything queued is written. False: it was not, within `wait` seconds."""
        with self._wake:
            return self._wake.wait_for(lambda: not self._lines and self._idle, timeout=wait)

    def close(self, wait: float = 1.0) -> None:
        """Write what is queued, as far as that goes in time, and end the thread. Idempotent."""
        self.flush(wait)
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(timeout=wait)

    def _run(self) -> None:
        while True:
            with self._wake:
                self._idle = True
                self._wake.notify_all()
                self._wake.wait_for(lambda: self._lines or self._closing)
                if not self._lines:
                    return
                self._idle = False
                batch = list(self._lines)
                self._lines.clear()
                dropped, self._dropped = self._dropped, 0
            if dropped:
                batch.append(f'{{"event": "log.dropped", "level": "warning", "lines": {dropped}}}')
            try:
                self._stream.write("\n".join(batch) + "\n")
                self._stream.flush()
            except (OSError, ValueError):  # standard error is closed or its disk is full: there is no place to tell
                with self._wake:
                    self.dropped_total += len(batch)


class _Output:
    """What structlog and the logging module write to: a whole line a call, to whichever writers are in force."""

    def msg(self, message: str) -> None:
        line = message if len(message) <= _MAX_LINE_CHARS else message[:_MAX_LINE_CHARS] + " …cut"
        for one in (_writer, _file_writer):
            if one is not None:
                one.write(line)

    debug = info = warning = error = critical = exception = log = fatal = msg


class _Handler(logging.Handler):
    """Brings the lines of libraries into the same stream."""

    def __init__(self) -> None:
        super().__init__()
        self._output = _Output()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._output.msg(self.format(record))
        except Exception:  # noqa: BLE001 - a library's broken log call must not end what it logs about
            self._output.msg(json.dumps({"event": "log.broken", "level": "warning", "logger": record.name}))


_writer: Writer | None = None
_file_writer: Writer | None = None
_file: LogFile | None = None
_redactor = Redactor()


def redactor() -> Redactor:
    """The redactor in force, for whatever else leaves the process (health pages, error replies)."""
    return _redactor


def writer() -> Writer | None:
    """The writer in force, None before `configure`. Its `dropped_total` counts lost lines."""
    return _writer


def configure(
    *,
    level: Level = "info",
    format: Format = "json",  # noqa: A002 - the key of the configuration
    secrets: Iterable[str] = (),
    stream: Stream | None = None,
    file: FileSettings | None = None,
) -> Redactor:
    """Set up structlog and the logging module, for the process. May be called again; the last wins.

    Returns the redactor, to which secrets that become known later can be added. Blocking where it is called
    again (the old writer writes what it has); `change` is for a process at work.
    """
    global _writer, _redactor  # noqa: PLW0603 - logging is the process's, like its standard error
    if _writer is None:
        atexit.register(shutdown)
    else:
        _writer.close()
    _writer = Writer(stream or sys.stderr)
    _redactor = Redactor(secrets)
    _install(level, format)
    _use_file(file)
    logging.captureWarnings(True)
    sys.excepthook = _log_crash
    threading.excepthook = lambda args: _log_crash(args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)
    return _redactor


def change(
    *,
    level: Level,
    format: Format,  # noqa: A002 - the key of the configuration
    secrets: Iterable[str],
    file: FileSettings | None,
) -> None:
    """Take over other settings while everything runs; further secrets are masked besides the earlier ones. An
    unchanged file is opened again (somebody may have moved it away). Never blocks."""
    _redactor.add(secrets)
    _install(level, format)
    if _file is None or _file.settings != file:
        _use_file(file)
    else:
        _file.reopen()


def _use_file(settings: FileSettings | None) -> None:
    global _file, _file_writer  # noqa: PLW0603 - as above
    old, old_file = _file_writer, _file
    _file = None if settings is None else LogFile(settings, _tell)
    _file_writer = None if _file is None else Writer(_file)
    if old is not None and old_file is not None:
        threading.Thread(target=_let_go, args=(old, old_file), name="log-file-close", daemon=True).start()


def _let_go(old: Writer, file: LogFile) -> None:
    """What the old file still has to get is written; then it is closed."""
    old.close()
    file.close()


def _tell(event: str, about: str) -> None:
    """A line on standard error only: the file is what it is about."""
    if _writer is not None:
        line = {"event": event, "level": "warning", "logger": "log", "about": _redactor.text(about)}
        _writer.write(json.dumps(line, ensure_ascii=False))


def _install(level: Level, format: Format) -> None:  # noqa: A002 - as above
    """Level and form of the lines."""
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = [
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        _redact,
        _renderer(format),
    ]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_output,
        cache_logger_on_first_use=False,
    )
    handler = _Handler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared[:2], structlog.stdlib.add_logger_name, shared[2]],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(number, least))


def shutdown(wait: float = 1.0) -> None:
    """Write what is queued, at the end of the process. Bounded and idempotent."""
    for one in (_writer, _file_writer):
        if one is not None:
            one.close(wait)


def _output(*_names: object) -> _Output:
    return _Output()


def _renderer(kind: str) -> Any:
    if kind == "json":
        return structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    return structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)


def _redact(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name in _BODIES & event.keys():
        if isinstance(event[name], str | bytes):
            event[name] = f"<{len(event[name])} long>"
    return _redactor.fields(event)


def _log_crash(kind: type[BaseException], value: BaseException, trace: Any) -> None:
    """The process's last words go the same way as its others, so that they are redacted as well."""
    if issubclass(kind, KeyboardInterrupt):
        return
    structlog.get_logger("crash").critical("process.crashed", exc_info=(kind, value, trace))
