"""`snm doctor`: what is wrong with a data set, a run or this machine, and what to do about it."""
