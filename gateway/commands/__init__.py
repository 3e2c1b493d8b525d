"""Slash commands: one table, a file a family."""
