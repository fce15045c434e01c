"""`snm serve`: answers over HTTP."""
