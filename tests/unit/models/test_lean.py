"""The types of an SDK are read when they are asked for, and then all there."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
from agent_core.models.lean import defer_types
package = sys.argv[1]
assert defer_types(package) > 1
module = __import__(package)
before = sum(name.startswith(package + ".types") for name in sys.modules)
assert defer_types(package) == 0
if package == "openai":
    from openai.types.chat import ChatCompletion
    import openai.types
    assert openai.types.chat.ChatCompletion is ChatCompletion
    ChatCompletion.model_validate({"id": "x", "created": 1, "model": "m", "object": "chat.completion", "choices": []})
    openai.AsyncOpenAI(api_key="k").chat.completions
    assert openai.types.Embedding.model_fields  # the whole package is read now
    after = sum(name.startswith(package + ".types") for name in sys.modules)
    assert before < after / 2, (before, after)
else:  # it reads its types by itself while it is imported: nothing is won, and nothing breaks
    from anthropic.types import Message
    assert Message.model_fields
    module.AsyncAnthropic(api_key="k").messages
"""


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_types_come_when_they_are_asked_for(package: str) -> None:
    args = [sys.executable, "-c", CODE, package]
    done = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_no_package_is_left_alone() -> None:
    from agent_core.models.lean import defer_types

    assert defer_types("no_such_sdk_here") == 0
    assert defer_types("sys") == 0
