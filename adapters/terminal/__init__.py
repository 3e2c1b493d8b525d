"""The terminal: `tidings chat`, interactive, piped, or for one question."""
