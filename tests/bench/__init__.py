"""Measures, run by hand: `python -m tests.bench`. Nothing here is asserted: these machines are shared and noisy."""
