"""Texts as vectors, for ranking by meaning (extra `semantic`)."""
