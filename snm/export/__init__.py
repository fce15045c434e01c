"""`snm export`: parameters as arrays, which are opened as a model, or an index for k-NN search.

Public names: `load.load`; `arrays.arrays_of`, `arrays.manifest_of`, `arrays.origin_of`,
`arrays.write_arrays`; `mapped.open_export`, `mapped.write_export`;
`memory_arrays.memory_arrays_of`, `memory_arrays.votes_of`; `index.build_index`,
`index.with_index`; `index_libraries.LIBRARIES`, `index_libraries.GraphSettings`; `measure.measure`.
"""
