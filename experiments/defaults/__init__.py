"""How the default settings of `snm train` were chosen, how good the models are, and their cost."""
