"""The command line: one table of verbs."""
