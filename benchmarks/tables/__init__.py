"""The tables of `snm bench` on two processors, and the program that writes them."""
