"""Tools: a registry, toolsets with rights, one file a tool."""
