"""Training on many machines: shards in the actors of a Ray cluster. No other package imports Ray."""
