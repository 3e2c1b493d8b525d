"""An upgrade without a gap: a running daemon hands over to a new one, over the same store."""
