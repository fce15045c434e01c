"""Data sets: load, cache, weight, describe, split and generate them.

Public names, by module:

- `dataset`: `Dataset` and `Points`, the in-memory form (CSR features and labels).
- `load`: `load` reads a folder, a fetched set or `synthetic`; `cache_key` and `load_mapped` serve
  the processes of one run that share a cache.
- `matrices`: `to_csr` and `check_finite`, for the matrices that a program passes.
- `cache`: `read` and `write` parsed matrices as `.npy` files.
- `weighting`: `Weighting`, the TF-IDF or L2 weights that a model applies to raw feature values.
- `weights`: weights of points and labels, converted, checked and described.
- `vectorizer`: `Vectorizer`, which turns texts into features.
- `statistics`: `describe`, `duplicate_rows`, `duplicate_test_rows`.
- `generated.synthetic`: `generate` a seeded data set, `default` is the one named `synthetic`.
- `split`: `write_parts` cuts one file of points by files of row numbers.
- `formats`: file formats. To add an import format, see its docstring.
- `repository`: public data sets by name, `fetch` downloads one.

Nothing is re-exported here, so that `import snm.data` imports neither NumPy nor SciPy.
"""
