"""Builds what deploy/Dockerfile describes, where no engine runs: its own COPY and RUN steps over this machine.

Each stage is an overlay over the machine's own root folder, which stands for the base image and stays as it is; the
steps run in it by chroot, in a mount namespace of their own. It takes root and Linux. What it cannot show is the
base image itself, and how an engine sets up a container.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
VERBS = frozenset(
    ("ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD")
)
PYTHON_BIN = Path(sys.base_prefix) / "bin"


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction, its lines joined."""

    verb: str
    text: str

    def json(self) -> list[str]:
        """The list in an instruction that holds one."""
        return list(json.loads(self.text[self.text.index("[") :]))


@dataclass(slots=True)
class Stage:
    """One FROM and what follows."""

    name: str
    steps: list[Step] = field(default_factory=list)

    def last(self, verb: str) -> Step:
        """The step that counts for the image."""
        return next(step for step in reversed(self.steps) if step.verb == verb)

    def environment(self, before: Step | None = None) -> dict[str, str]:
        """What ENV and ARG say, for the image or `before` a step. What a base image has itself is not there."""
        found: dict[str, str] = {}
        for step in self.steps:
            if step is before:
                break
            if step.verb in ("ENV", "ARG"):
                found |= dict(word.split("=", 1) for word in shlex.split(step.text) if "=" in word)
        return found


def stages(text: str) -> list[Stage]:
    """Read a Dockerfile. Fails for an instruction that is not known here."""
    found: list[Stage] = []
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        verb, _, rest = line.strip().partition(" ")
        if not verb:
            continue
        assert verb in VERBS, f"{verb}: not known here"
        if verb == "FROM":
            found.append(Stage(rest.partition(" AS ")[2] or str(len(found))))
        elif found:
            found[-1].steps.append(Step(verb, rest.strip()))
    return found


def ignored(path: str, patterns: list[str]) -> bool:
    """Whether .dockerignore leaves a path out: the last pattern that fits it, or a folder above it, counts."""
    parts = path.split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    out = False
    for pattern in patterns:
        bare = pattern.removeprefix("!")
        inner = "".join(
            {"**/": "(?:.*/)?", "*": "[^/]*"}.get(piece, re.escape(piece)) for piece in re.split(r"(\*\*/|\*)", bare)
        )
        if any(re.fullmatch(inner, one) for one in above):
            out = not pattern.startswith("!")
    return out


def context(source: Path, target: Path) -> list[str]:
    """Copy what an engine would be sent; the paths."""
    patterns = [
        line.strip()
        for line in (source / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    sent: list[str] = []
    for folder, _, files in os.walk(source):
        for name in files:
            path = Path(folder, name)
            relative = path.relative_to(source).as_posix()
            if relative.startswith(".git/") or ignored(relative, patterns):
                continue
            sent.append(relative)
            (target / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / relative, follow_symlinks=False)
    return sorted(sent)


class Workshop:
    """A mount namespace with the stages in it, on a tmpfs: everything is gone with its one process."""

    def __init__(self, folder: Path) -> None:
        """`folder` becomes the place of the stages. Raises `CannotBuild` where this machine does not let us."""
        if os.geteuid() != 0:
            raise CannotBuild("only root can mount")
        self.folder = folder
        where = shlex.quote(str(folder))
        text = f"mount -t tmpfs tmpfs {where} && echo here && exec sleep infinity"
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", text],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._holder.stdout is not None
        said = self._holder.stdout.readline().strip()
        if said == "here":
            tried = self.run(self.mounted("probe"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            told = tried.communicate(timeout=30)[0]
            said = "" if tried.returncode == 0 else f"{told} (exit code {tried.returncode})"
        if said:
            self.close()
            raise CannotBuild(f"no overlay can be mounted here: {said.strip()}")

    def close(self) -> None:
        """End the process that holds the namespace."""
        self._holder.kill()
        self._holder.communicate()

    def path(self, inside: str) -> Path:
        """A path below the place of the stages, as it is reached from outside."""
        return Path(f"/proc/{self._holder.pid}/root{self.folder}", inside)

    def run(self, lines: list[str], **options: object) -> subprocess.Popen[str]:
        """Run shell lines in a mount namespace of their own; the process is what they `exec` at last."""
        inside = [
            "nsenter",
            f"--target={self._holder.pid}",
            "--mount",
            "unshare",
            "--mount",
            "--propagation",
            "private",
        ]
        command = [*inside, "bash", "-c", "\n".join(("set -eu", *lines))]
        return subprocess.Popen(command, text=True, **options)  # type: ignore[call-overload, no-any-return]

    def mounted(self, stage: str) -> list[str]:
        """Shell lines that mount a stage; `$root` is where."""
        base = shlex.quote(str(self.folder / stage))
        return [
            f"root={base}/root",
            f'mkdir -p {base}/up {base}/work "$root"',
            f'mount -t overlay overlay -o lowerdir=/,upperdir={base}/up,workdir={base}/work "$root"',
            'mount --rbind /proc "$root/proc"',
            'mount --rbind /dev "$root/dev"',
            'mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"',
        ]


class CannotBuild(Exception):
    """This machine does not let us; the text says why."""


def build(workshop: Workshop, sent: Path) -> None:
    """Carry out every stage over the context in `sent`. Fails with the output of the step that failed."""
    for stage in stages(DOCKERFILE.read_text(encoding="utf-8")):
        lines = [*workshop.mounted(stage.name), *_reachable_python()]
        where = "/"
        for step in stage.steps:
            if step.verb == "WORKDIR":
                where = os.path.join(where, step.text)
                lines.append(f'mkdir -p "$root{where}"')
            elif step.verb == "COPY":
                lines += _copy(step.text, where, workshop.folder, sent)
            elif step.verb == "RUN":
                lines.append(_run(step.text, where, stage.environment(before=step)))
        done = workshop.run(lines, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = done.communicate(timeout=600)[0]
        assert done.returncode == 0, said[-3000:]


def _reachable_python() -> list[str]:
    """The interpreter of a base image can be reached by everybody; this machine's may lie in somebody's home."""
    return [f'chmod a+x "$root{parent}"' for parent in PYTHON_BIN.parents]


def _copy(text: str, where: str, folder: Path, sent: Path) -> list[str]:
    words = text.split()
    base = sent
    if words[0].startswith("--from="):
        base = folder / words.pop(0).removeprefix("--from=") / "up"  # the stage wrote it, so all of it is there
    *sources, target = words
    place = os.path.join(where, target)
    found = [f"{base}/{source.lstrip('/')}" for source in sources]
    if target.endswith("/"):
        return [f'mkdir -p "$root{place}"', f'cp {" ".join(found)} "$root{place}"']
    assert len(found) == 1, text
    return [f'mkdir -p "$root{os.path.dirname(place)}"', f'cp -rT --preserve=mode,links {found[0]} "$root{place}"']


def _run(text: str, where: str, variables: dict[str, str]) -> str:
    """As in an image, but for what this machine's pip needs to find its packages."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or "proxy" in name.lower()}
    values = {
        "HOME": os.environ.get("HOME", "/root"),
        "PATH": f"{PYTHON_BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        **kept,
        **variables,
    }
    words = [f"{name}={value}" for name, value in values.items()]
    return f'chroot "$root" env -i {shlex.join(words)} sh -c {shlex.quote(f"cd {where} && {text}")}'
