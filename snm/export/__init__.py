"""`snm export`: parameters as arrays, or an index for approximate search."""
