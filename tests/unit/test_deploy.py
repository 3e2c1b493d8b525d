"""The files in deploy/: well-kept linters have nothing to say, and they keep what the daemon promises."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config import load
from gateway.config_schema import LimitSettings
from gateway.config_types import Config
from gateway.lifecycle import longest_stop
from gateway.probe import DEFAULT
from tests.integration.image import DOCKERFILE, ROOT, context, stages

DEPLOY = ROOT / "deploy"
LONGEST = longest_stop(LimitSettings().drain_seconds)


def lint(tool: str, *args: str) -> None:
    found = shutil.which(tool, path=str(Path(sys.executable).parent)) or shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed: pip install -e '.[dev]'")
    done = subprocess.run([found, *args], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def documents() -> dict[str, dict[str, Any]]:
    found = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    return {one["kind"]: one for one in found}


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]["tidings"])


def read(text: str, folder: Path) -> Config:
    """The configuration as the daemon in the container reads it, with something for each variable."""
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    names = re.findall(r"\$\{(\w+)\}", text)
    assert names
    return load(file, environ={"TIDINGS_HOME": "/var/lib/tidings", **dict.fromkeys(names, "k" * 32)})


def test_the_dockerfile_passes_hadolint() -> None:
    lint("hadolint", "--failure-threshold", "style", str(DOCKERFILE))


def test_the_compose_file_keeps_to_its_specification() -> None:
    lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml"))


def test_the_manifests_keep_to_the_schemas_of_kubernetes() -> None:
    lint("kubernetes-validate", "--strict", str(DEPLOY / "kubernetes.yaml"))


def test_everybody_waits_longer_than_the_longest_stop() -> None:
    grace = compose()["stop_grace_period"]
    assert grace.endswith("s")
    assert float(grace[:-1]) > LONGEST
    assert documents()["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > LONGEST


def test_the_containers_have_no_rights_that_they_do_not_need() -> None:
    service = compose()
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert any(mount.startswith("/tmp") for mount in service["tmpfs"])
    pod = documents()["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    mine = pod["containers"][0]["securityContext"]
    assert mine == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    user = stages(DOCKERFILE.read_text(encoding="utf-8"))[-1].last("USER").text
    ids = {pod["securityContext"][name] for name in ("runAsUser", "runAsGroup", "fsGroup")}
    assert [f"{one}:{one}" for one in ids] == [user]


def test_one_daemon_a_state_folder() -> None:
    spec = documents()["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    home = stages(DOCKERFILE.read_text(encoding="utf-8"))[-1].environment()["TIDINGS_HOME"]
    volumes = {mount["source"]: mount["target"] for mount in compose()["volumes"] if mount["type"] == "volume"}
    assert volumes == {"state": home}
    mounts = {mount["name"]: mount["mountPath"] for mount in spec["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert mounts["state"] == home
    assert mounts["config"] == f"{home}/config.yaml"


def test_life_and_readiness_are_asked_apart(tmp_path: Path) -> None:
    """A parked platform makes /readyz 503, and must not end the daemon."""
    found = documents()
    container = found["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    settings = read(found["ConfigMap"]["data"]["config.yaml"], tmp_path)
    http = settings.platforms["http"].model_dump()
    assert http["host"] == "0.0.0.0"  # the kubelet asks from outside the pod
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {probe["port"] for probe in probes.values()} == {"http"}
    assert http["port"] == ports["http"] == found["Service"]["spec"]["ports"][0]["port"]
    assert f":{http['port']}/healthz" in DEFAULT


def test_the_configuration_in_the_docs_serves_in_a_container(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8").partition("## In a container")[2]
    settings = read(page.partition("```yaml\n")[2].partition("```")[0], tmp_path)
    assert settings.enabled() == ("http",)
    http = settings.platforms["http"].model_dump()
    assert (http["host"], f":{http['port']}:{http['port']}" in compose()["ports"][0]) == ("0.0.0.0", True)


def test_no_secret_is_written_into_an_image_or_a_manifest() -> None:
    assert "Secret" not in documents()
    for stage in stages(DOCKERFILE.read_text(encoding="utf-8")):
        assert not re.search(r"KEY|TOKEN|SECRET|PASSWORD", " ".join(stage.environment()))


def test_only_the_product_is_sent_to_an_engine(tmp_path: Path) -> None:
    source = tmp_path / "checkout"
    for name in (
        "pyproject.toml",
        "gateway/app.py",
        "adapters/http/adapter.py",
        "gateway/__pycache__/app.pyc",
        "deploy/constraints",
        "deploy/secrets.env",
        "deploy/config.yaml",
        ".env",
        "http.key",
        "tests/unit/test_x.py",
        ".venv/bin/python",
        "docs/http.md",
    ):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    shutil.copy(ROOT / ".dockerignore", source)
    target = tmp_path / "sent"
    assert context(source, target) == [
        "adapters/http/adapter.py",
        "deploy/constraints",
        "gateway/app.py",
        "pyproject.toml",
    ]


def test_the_dockerfile_copies_what_the_package_is_made_of() -> None:
    """A new top-level package must not be forgotten in the image."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    wanted = {*wheel["packages"], *wheel["force-include"], project["project"]["readme"], "pyproject.toml"}
    copied: set[str] = set()
    for step in stages(DOCKERFILE.read_text(encoding="utf-8"))[0].steps:
        if step.verb == "COPY":
            copied.update(step.text.split()[:-1])
    assert wanted <= copied
    assert json.dumps(sorted(copied)).count("secret") == 0
