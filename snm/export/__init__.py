"""`snm export`: parameters as arrays, which are opened as a model, or an index for k-NN search.

Public names: `load.load`; `arrays.model_arrays`, `arrays.make_manifest`, `arrays.run_origin`,
`arrays.write_arrays`; `memory_arrays.stored_arrays`, `memory_arrays.voting_entries`;
`index.build_index`, `index.with_index`; `index_libraries.LIBRARIES`,
`index_libraries.GraphSettings`; `measure.measure_recall`. `npy` and `hub` write folders that open
as models.
"""
