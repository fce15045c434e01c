"""Files of others become a data folder: texts with labels, or interactions of users with items."""
