"""The definition of a round, for every engine but the oracle, for devices and for the recommender."""
