"""Other packages and methods, each behind one function, measured in processes of their own.

Public names, by module:

- `protocol`: `Peer`, `TrainAndPredict`: what a peer is.
- `interpreters`: `ThisInterpreter`, `OtherInterpreter`: the one that has the package of a peer.
- `trees`, `words`, `neighbors`, `pecos`: the peers. `pecos_script` runs in the other interpreter.
- `table`: `PEERS`: name -> peer.
- `process`: `run_peer`, `measure_peer`, `PeerOptions`, `check`: measures one of them in its own
  process.

Nothing is re-exported here.
"""
