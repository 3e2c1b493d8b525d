"""The table of subcommands, and how their errors reach the person: one line on standard error."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from gateway.cli.common import ConfigOption, JsonOption, fail, load_config
from gateway.lifecycle import ExitCode

app = typer.Typer(
    name="tidings",
    help="One agent, reached from every chat you use.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command()
def run(
    config: ConfigOption = None,
    takeover: Annotated[
        bool, typer.Option("--takeover", help="Take over from the daemon that runs, without a gap.")
    ] = False,
) -> None:
    """Start the daemon in the foreground. Logs JSON lines to standard error; SIGTERM ends it."""
    settings = load_config(config)
    from gateway.app import run_daemon  # noqa: PLC0415 - imported by the command that needs it

    raise typer.Exit(run_daemon(settings, takeover=takeover))


@app.command()
def chat(
    config: ConfigOption = None,
    resume: Annotated[
        bool, typer.Option("--continue", "-c", help="Go on with the last terminal conversation.")
    ] = False,
    session: Annotated[str | None, typer.Option("--session", help="Go on with this session.")] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-p", help="Ask one question, print the answer, end.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Talk with the agent in this terminal. Works with and without the daemon.

    Where standard input is no terminal, each line is a message, only the answers go to standard output,
    and the last conversation goes on.
    """
    settings = load_config(config)
    from gateway.chat import ChatOptions, run_chat  # noqa: PLC0415

    options = ChatOptions(resume=resume, session=session, prompt=prompt, json=as_json)
    raise typer.Exit(run_chat(settings, options))


def _add(name: str, path: str, help_text: str) -> None:
    """A family of subcommands that is imported when it is called."""
    app.command(
        name=name,
        help=help_text,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
        add_help_option=False,
    )(_later(name, path))


def _later(name: str, path: str) -> Callable[[typer.Context], None]:
    def call(context: typer.Context) -> None:
        import importlib  # noqa: PLC0415

        module, _, attribute = path.partition(":")
        family: typer.Typer = getattr(importlib.import_module(module), attribute)
        raise typer.Exit(_invoke(family, context.args, f"tidings {name}"))

    return call


for _name, _path, _help in (
    ("sessions", "gateway.cli.sessions:app", "List, show, search and export sessions."),
    ("why", "gateway.cli.sessions:why_app", "What became of a message."),
    ("status", "gateway.cli.status:app", "How the daemon stands."),
    ("reload", "gateway.cli.operate:reload_app", "Have the daemon take over the configuration."),
    ("restart", "gateway.cli.operate:restart_app", "End the daemon so that it is started again."),
    ("stop", "gateway.cli.operate:stop_app", "End the daemon, and wait for its end."),
    ("upgrade", "gateway.cli.upgrade:app", "Let another version take over, without a gap."),
    ("doctor", "gateway.cli.doctor:app", "Look for what is wrong, with a remedy for each finding."),
    ("config", "gateway.cli.config:app", "Check or make the configuration."),
    ("setup", "gateway.cli.setup:app", "Connect a chat platform: ask, check, write the configuration."),
    ("handoff", "gateway.cli.handoff:app", "Hand a conversation off to a chat."),
    ("pair", "gateway.cli.pair:app", "Let people in by their pairing code."),
    ("service", "gateway.cli.service:app", "Run the daemon under systemd."),
    ("db", "gateway.cli.db:app", "Check, back up or restore the database."),
    ("model", "gateway.cli.model:app", "Install, list or check the embedded model."),
):
    _add(_name, _path, _help)


def _invoke(family: typer.Typer, args: Sequence[str], name: str) -> int:
    """Run a family; what the library tells and its exit code are the command's."""
    try:
        family(args=list(args), prog_name=name)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def run_cli(args: Sequence[str]) -> int:
    """Run one command line; its exit code."""
    try:
        return _invoke(app, args, "tidings")
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
    except OSError as error:
        return fail(str(error), ExitCode.FAULT)
    except Exception as error:  # the boundary of a command: a defect is one line, unless somebody looks for it
        if os.environ.get("TIDINGS_DEBUG"):
            raise
        return fail(f"a defect: {type(error).__name__}: {error} (TIDINGS_DEBUG=1 shows where)", ExitCode.FAULT)
