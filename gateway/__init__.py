"""The daemon: routing, turns, delivery, commands, operations and the `tidings` command."""
