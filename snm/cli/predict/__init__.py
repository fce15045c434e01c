"""`snm predict`: the verb, its streams of points and answers, and files of labels."""
