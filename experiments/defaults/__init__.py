"""What `snm train DATA` should do, how good its models are, and what they cost."""
