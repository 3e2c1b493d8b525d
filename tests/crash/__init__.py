"""Real processes and real `kill -9`."""
