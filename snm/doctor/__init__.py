"""`snm doctor`: checks of the environment, of a data set, of a run."""
