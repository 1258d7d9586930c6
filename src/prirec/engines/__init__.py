"""Training in simulation: the readable oracle, the fast engine that must equal it, protocols, shards."""
