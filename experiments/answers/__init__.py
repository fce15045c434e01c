"""Quality of the predictions of a trained model: exact, by an index, in int8, and in Annif."""
