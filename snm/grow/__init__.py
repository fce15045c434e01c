"""`snm grow`: new labels for a trained model."""
