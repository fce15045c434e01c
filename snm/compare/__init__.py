"""`snm compare`: arms on the same data, as processes that survive interruptions, and a report."""
