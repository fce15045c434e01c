"""Files, locks, signals, memory, terminal, versions: what any program needs."""
