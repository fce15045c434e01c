"""Makes data sets: of texts that a machine has, and of copies of another set."""
