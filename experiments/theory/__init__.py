"""What the theorems and the tables of the papers say, worked out."""
