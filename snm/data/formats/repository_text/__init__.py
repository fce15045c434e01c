"""The text forms of the Extreme Classification Repository.

Public names: `reader.read_text` and `reader.read_pair`; `reader.TextReader` and
`reader.split_pieces`, which read in bounded memory; `writer.write_text` and `writer.TextWriter`.
`parser` is the fast pass over a block of lines; `errors` finds the first fault of a block that it
refuses.
"""
