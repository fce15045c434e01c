"""Public data sets by name: the registry, downloads, and archives.

Public names, by module:

- `registry`: `Entry`, `Mirror`, `find`, `entry_like`, `read_registry`; `propensity_of` a set, and
  `PROPENSITY` of most; the entries are in `registry.toml`.
- `download`: `fetch_archive` downloads from the first mirror that works and resumes.
- `unpack`: `unpack` extracts the wanted files of an untrusted archive.
- `fetch`: `fetch` does all of it and checks the sizes; `dataset_folder` is the folder in the cache.
"""
