"""File formats of data sets: read them, write them, and report what is wrong with a file.

Formats that training reads:

- `repository_text`: the text forms of the Extreme Classification Repository, read and written.
- `binary`: SciPy `.npz` and dense `.npy`.
- `feature_files`: `iter_features` streams the features of a file of any of these.
- `line_files`: label names, weights and label filters, one a line.
- `records`, `parquet`: lines, rows of CSV, and records of JSON lines and Parquet.
- `gzipped`: opens plain and gzipped files.

Formats that `snm data import` converts (`foreign`): `READERS` is the table, name -> `Reader`;
`detection` finds the format of a file by it.

To add an import format, edit `foreign.py` alone, or a new module and `foreign.py`:

1. Write a generator `(path, options) -> Iterator[Row]` that yields one `Row` a point and raises
   `InputError` with file and line at the first fault. `records.numbered_lines` opens, unpacks
   and decodes. `read_rows` makes distinct names of the labels.
2. Add `"name": Reader(generator, ...)` to `READERS`, with the suffixes and the first-line test by
   which `detect` recognizes the format. `entries=True` marks a format of numbers instead of text.

`read_rows` and `detect` read the table; so should every list of format names.
"""
