"""Public data sets by name: the registry, downloads, archives."""
