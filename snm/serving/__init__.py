"""`snm serve`: a trained run behind HTTP."""
