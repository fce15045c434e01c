"""`snm bounds`: generalization bounds evaluated for a trained run."""
