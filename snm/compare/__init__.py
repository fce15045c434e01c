"""`snm compare`: SNM against negative sampling and other packages, over seeds, with a report."""
