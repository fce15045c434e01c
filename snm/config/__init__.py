"""Settings: presets, TOML files, the rules of `auto`, and resolution against a data set."""
