"""Models behind one port: any OpenAI-compatible endpoint, Anthropic, the embedded model, a scripted one."""
