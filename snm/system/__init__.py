"""Files, locks, signals, memory, terminal and versions: what any program needs, nothing of this field."""
