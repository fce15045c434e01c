"""Scripts that make data sets: from texts on a machine, and from copies of another set."""
