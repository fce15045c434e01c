"""Tables of rows: lookups (embedding bags), row optimisers, and updates in place at a cost of O(rows touched)."""
