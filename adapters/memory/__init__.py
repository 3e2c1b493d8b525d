"""A platform that lives in memory: the counterpart of every test that needs a chat."""
