"""Settings: presets, TOML files, what `auto` stands for, and their resolution against a data set."""
