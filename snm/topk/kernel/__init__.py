"""The product, the exclusions and the running top k of a block of queries as one kernel.

The scores stay on the chip. `plan` says when the kernel is used, and its tiles; `on_tpu` (Mosaic)
and `on_gpu` (Triton) are its two forms, `choice` puts them into `snm.topk.best_scores`.
"""
