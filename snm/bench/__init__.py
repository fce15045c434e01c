"""`snm bench`: each part of a training step against the limits of the machine and against peers."""
