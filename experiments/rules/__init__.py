"""How the rules of the default preset were found: the pages here, and their measurements."""
