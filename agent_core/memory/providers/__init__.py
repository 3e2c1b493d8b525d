"""External memories: one of them is active, behind one port."""
