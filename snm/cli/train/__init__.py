"""`snm train`: the verb, and the display of its events."""
