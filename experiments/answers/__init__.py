"""What the answers of a trained model are worth: alone, in an index, rounded, and in Annif."""
