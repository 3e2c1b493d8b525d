"""Platforms: what they tell us as values, what we tell them through ports. Knows neither state nor agent_core."""
