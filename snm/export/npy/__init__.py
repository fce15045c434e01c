"""A model as a folder of arrays that are mapped into memory, from `snm export --to npy`.

Public names: `folder.write_npy`, `folder.open_npy`, `folder.is_npy_export`; `names.MappedNames`.
"""
