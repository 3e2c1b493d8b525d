"""`tidings setup PLATFORM`: ask what is needed, check it against the platform, write the configuration."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from adapters import registry
from adapters.errors import AdapterError, AuthFailed
from adapters.settings import EVERYBODY
from adapters.setup import Checked, Question, Setup
from gateway.cli.common import ConfigOption, JsonOption, fail, family, out, out_json, stop
from gateway.cli.config import quick_text
from gateway.config_build import find_home
from gateway.config_edit import CannotEdit, Keys, edited, write_private
from gateway.config_paths import default_path
from gateway.config_platforms import missing_adapter, person_fault, platform_settings
from gateway.config_secrets import read_reference, secret_paths
from gateway.config_yaml import parse
from gateway.lifecycle import ExitCode

app = family("Connect a chat platform.", single=True)

CHECK_SECONDS = 60.0
OWNER = "owner"


@app.command()
def setup(
    platform: Annotated[str, typer.Argument(help="The platform to connect.")],
    answers: Annotated[
        list[str] | None,
        typer.Option("--set", help="An answer as KEY=VALUE (KEY=@FILE reads a file); nothing else is asked then."),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask for what the platform needs, check it there, and write it into the configuration."""
    manifest = registry.manifests().get(platform)
    if manifest is None or manifest.setup is None:
        known = ", ".join(name for name, one in registry.manifests().items() if one.setup is not None)
        raise stop(f"there is nothing to set up for {platform!r}; there are: {known}")
    if problem := missing_adapter(platform):
        raise stop(problem)
    path = (config or default_path(os.environ)).expanduser().absolute()
    text, is_new = _text_of(path)
    asked: Setup = registry.load(manifest.setup)
    questions = (*asked.questions, owner_question(platform))
    given = _given(answers, questions) if answers is not None else _ask(asked.intro, questions, manifest.title)
    resolved = _standing(text, platform) | {key: _resolved(value, path) for key, value in given.items()}
    try:
        checked = asyncio.run(_check(asked, resolved))
    except AuthFailed as error:
        raise stop(f"{manifest.title} refuses these credentials ({error.told}); nothing was written") from None
    except AdapterError as error:
        raise stop(f"{manifest.title} could not be asked: {error.told} ({error}); nothing was written") from None
    _write(path, text, platform, given, questions, checked)
    _tell(platform, path, checked, is_new=is_new, as_json=as_json)
    if checked.missing:
        raise typer.Exit(1)


def owner_question(platform: str) -> Question:
    """Asked for every platform, and written to `access.owners`: without an owner nobody can allow anything."""

    def fault(text: str) -> str | None:
        return person_fault(f"{platform}:{text}")

    return Question(
        key=OWNER,
        text="The owner's id there",
        where="The owner may use files and the terminal, answers approvals, and lets others in.",
        many=True,
        optional=True,
        fault=fault,
    )


def _text_of(path: Path) -> tuple[str, bool]:
    """The configuration as it stands, or one to begin with."""
    try:
        return path.read_text(encoding="utf-8-sig"), False
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return quick_text(path.parent), True
    except (OSError, UnicodeDecodeError) as error:
        raise stop(f"{path} cannot be read: {error}", ExitCode.CONFIG) from None


async def _check(asked: Setup, answers: Mapping[str, Any]) -> Checked:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await asked.check(answers)
    except TimeoutError:
        raise stop(f"the platform did not answer within {CHECK_SECONDS:g} s; nothing was written") from None


# answers -----------------------------------------------------------------------------------------


def _given(lines: Sequence[str], questions: Sequence[Question]) -> dict[str, Any]:
    """Answers from the command line. Keys that are no question are settings of the platform (`api_base`)."""
    by_key = {question.key: question for question in questions}
    answers: dict[str, Any] = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if not equals or not key:
            raise stop(f"--set wants KEY=VALUE, not {line!r}")
        if value.startswith("@"):
            try:
                value = Path(value[1:]).expanduser().read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise stop(f"{value[1:]} cannot be read: {error}") from None
        question = by_key.get(key)
        answers[key] = value if question is None else _accepted(question, value)
    for question in questions:
        if question.key not in answers and not question.optional:
            raise stop(f"--set {question.key}=… is missing: {question.text}")
    return answers


def _accepted(question: Question, value: str) -> Any:
    values = [one.strip() for one in value.split(",") if one.strip()] if question.many else [value]
    for one in values:
        if not _is_reference(one) and one != EVERYBODY and (problem := question.fault(one)):
            raise stop(f"{question.key}: {problem}")
    return values if question.many else value


def _ask(intro: str, questions: Sequence[Question], title: str) -> dict[str, Any]:
    """Answers from the person."""
    if not sys.stdin.isatty():
        raise stop("there is nobody to ask: give the answers with --set KEY=VALUE")
    out(f"{title}\n{'=' * len(title)}\n{intro}\n")
    answers: dict[str, Any] = {}
    for question in questions:
        if question.where:
            out(question.where)
        while True:
            value = _read(question)
            if not value:
                if question.optional:
                    break
                fail("this is needed")
                continue
            values = [one.strip() for one in value.split(",") if one.strip()] if question.many else [value]
            checks = [question.fault(one) for one in values if not _is_reference(one) and one != EVERYBODY]
            if problem := next((one for one in checks if one), None):
                fail(problem)
                continue
            answers[question.key] = values if question.many else value
            break
        out("")
    return answers


def _read(question: Question) -> str:
    hint = f"{' (with commas between them)' if question.many else ''}{' (optional)' if question.optional else ''}"
    try:
        if question.secret:
            return getpass.getpass(f"{question.text}{hint}: ").strip()
        return input(f"{question.text}{hint}: ").strip()
    except EOFError:
        raise stop("nothing was written") from None


def _is_reference(value: str) -> bool:
    return value.startswith("file:") or (value.startswith("${") and value.endswith("}"))


def _resolved(value: Any, path: Path) -> Any:
    """The answer itself, where a reference was given."""
    if not isinstance(value, str) or not _is_reference(value):
        return value
    try:
        return read_reference(value, folder=path.parent, environ=os.environ)
    except ValueError as error:
        raise stop(str(error), ExitCode.CONFIG) from None


# writing -----------------------------------------------------------------------------------------


def _write(
    path: Path, text: str, platform: str, given: Mapping[str, Any], questions: Sequence[Question], checked: Checked
) -> None:
    secret = {question.key for question in questions if question.secret}
    secret |= {".".join(map(str, keys)) for keys in secret_paths(platform_settings()[platform])}
    home = find_home(text, path, os.environ)
    changes: dict[Keys, Any] = {("platforms", platform, "enabled"): True}
    files: dict[Path, str] = {}
    for key, value in {**checked.settings, **given}.items():
        if key == OWNER:
            changes["access", "owners"] = _owners(text, [f"{platform}:{one}" for one in value])
            continue
        if key in secret and not _is_reference(value):
            file = home / "secrets" / f"{platform}-{key.replace('.', '-')}"
            files[file] = f"{value}\n"
            value = f"file:{file}"  # noqa: PLW2901 - what is written is the reference
        changes["platforms", platform, *key.split(".")] = value
    try:
        for file, content in files.items():  # first: the remedy below names them, too
            write_private(file, content)
        write_private(path, edited(text, changes))
    except OSError as error:
        raise stop(f"{error.filename or path} cannot be written: {error.strerror}; {platform} is not on") from None
    except CannotEdit as error:
        lines = "\n".join(f"  {'.'.join(keys)}: {value}" for keys, value in changes.items())
        raise stop(f"{path}: {error}. Please write there yourself:\n{lines}", ExitCode.CONFIG) from None


def _standing(text: str, platform: str) -> dict[str, Any]:
    """What the file says of the platform already and is no secret: where its server is, how it is reached."""
    platforms = parse(text)[0].tree.get("platforms")
    section = platforms.get(platform) if isinstance(platforms, dict) else None
    secret = {".".join(map(str, keys)) for keys in secret_paths(platform_settings()[platform])}
    found = section.items() if isinstance(section, dict) else ()
    return {key: value for key, value in found if key not in secret and isinstance(value, str) and "$" not in value}


def _owners(text: str, new: Sequence[str]) -> list[str]:
    """The owners that the file has, and the new ones."""
    access = parse(text)[0].tree.get("access")
    owners = access.get("owners") if isinstance(access, dict) else None
    return list(dict.fromkeys([*(owners if isinstance(owners, list) else []), *new]))


def _tell(platform: str, path: Path, checked: Checked, *, is_new: bool, as_json: bool) -> None:
    if as_json:
        out_json(
            {
                "platform": platform,
                "config": str(path),
                "found": list(checked.found),
                "missing": list(checked.missing),
                "after": checked.after,
            }
        )
        return
    for line in checked.found:
        out(f"✓ {line}")
    for line in checked.missing:
        out(f"✗ {line}")
    out(f"{path} is {'written' if is_new else 'changed'}: {platform} is on.")
    if checked.after:
        out(f"\n{checked.after}")
    out("\nStart the daemon with `tidings run`, or start it anew if it runs.")
