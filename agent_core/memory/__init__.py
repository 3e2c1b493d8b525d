"""What the agent remembers beyond a conversation."""
