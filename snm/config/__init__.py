"""Settings: presets, TOML files, the rules of `auto`, and resolution against a data set.

Public names: `settings.Config`, `settings.preset`, `settings.read_config`;
`resolved.ResolvedConfig`, whose settings have no `auto` left; `resolve.resolve`; the rules in
`auto`.
"""
