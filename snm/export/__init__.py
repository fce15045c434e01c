"""`snm export`: writes the parameters as arrays, or an index for approximate k-NN search.

Public names: `arrays.arrays_of`, `arrays.manifest_of`, `arrays.write_arrays`;
`memory.memory_arrays_of`, `memory.votes_of`; `index.build_index`, `index.IndexedPredictor`,
`index.Settings`; `measure.measure`.
"""
