"""Loopback servers that play the other side of the wire: models and platforms."""
