"""The product, the exclusions and the running top k of a block of queries as one kernel of a TPU.

The scores stay on the chip. `plan` says when the kernel is used, and its tiles; `on_tpu` is the
kernel, and `choice` puts it into `snm.topk.best_scores`.
"""
