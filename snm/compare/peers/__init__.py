"""Other packages and methods, each behind one function, measured in processes of their own.

Public names, by module:

- `protocol`: `Peer`, `TrainAndPredict`: what a peer is.
- `trees`, `words`, `neighbors`: the peers.
- `table`: `PEERS`: name -> peer.
- `process`: `run_peer`, `measure`, `check`: measures one of them in its own process.

Nothing is re-exported here.
"""
