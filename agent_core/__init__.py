"""The agent: loop, request, prompt, models, tools. Knows nothing of chat platforms."""
