"""From nothing to an answer with the README's commands: setup against the platform, run, a message."""

from __future__ import annotations

import json
from typing import Any

from gateway.config import load
from tests.e2e.test_conversations import Scene, scene
from tests.e2e.test_handoffs import command

__all__ = ["scene"]


def answers(scene: Scene, **changed: str) -> list[str]:
    """The answers of the platform's questions, and where its counterpart is."""
    side = scene.side
    ann = side.owner().partition(":")[2]
    given = {name.partition("_")[2].lower(): value for name, value in side.env().items()}
    if side.name != "slack":
        given = {"token": next(iter(side.env().values()))}
    given |= {"owner": ann, "api_base": side.section()["api_base"], **changed}
    if "gateway_url" in side.section():
        given["gateway_url"] = side.section()["gateway_url"]
    return [part for key, value in given.items() for part in ("--set", f"{key}={value}")]


async def test_setup_checks_the_platform_and_the_daemon_serves_it(scene: Scene) -> None:
    side = scene.side
    http: dict[str, Any] = {"enabled": True, "port": 0, "key": "${TIDINGS_HTTP_KEY}"}
    scene.world.configure(access={"owners": []}, platforms={"http": http})
    code, out, err = await command(scene, "setup", side.name, *answers(scene))
    assert code == 0, out + err
    assert f"{side.name} is on" in out
    for secret in side.env().values():
        assert secret not in out + err + scene.world.config.read_text()
    config = load(scene.world.config, environ={"MODEL_API_KEY": "k" * 20, "TIDINGS_HTTP_KEY": "k" * 20})
    assert side.name in config.enabled()
    await scene.start()
    scene.model.script("It works.")
    side.say(side.private, "hello")
    await scene.sees(side.private, "It works.")
    side.say(side.private, "/whoami")
    await scene.sees(side.private, "owner")
    code, out, err = await command(scene, "doctor", "--json")
    found = json.loads(out)["findings"]
    mine = [one for one in found if one["what"].lower().startswith(side.name)]
    assert mine
    assert all(one["grade"] == "ok" for one in mine), mine


async def test_setup_writes_nothing_where_the_token_is_refused(scene: Scene) -> None:
    before = scene.world.config.read_text()
    wrong = {
        "telegram": {"token": "12345678:AAwrongwrongwrongwrongwrongwrongwro"},
        "discord": {"token": "wrong.wrong.wrong"},
    }
    changed = wrong.get(scene.side.name, {"bot_token": "xoxb-wrong-wrong-wrong", "app_token": "xapp-wrong-wrong-wrong"})
    code, _, err = await command(scene, "setup", scene.side.name, *answers(scene, **changed))
    assert code == 1
    assert "nothing was written" in err
    assert err.count("\n") == 1, err
    assert scene.world.config.read_text() == before
