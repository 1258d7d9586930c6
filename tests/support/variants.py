"""Changes of settings under which every engine that runs rounds must equal the oracle."""

ROUNDS = {
    "as preset": {},
    "some offline, some lost": {"participation": {"online": 0.7, "dropout": 0.3}},
    "gamma 0": {"linear": {"mixing": "fixed", "gamma": 0.0}},
    "gamma 1": {"linear": {"mixing": "fixed", "gamma": 1.0}},
    "clips that bite": {"linear": {"clip": 0.1}, "interaction": {"clip": 0.001}},
    "K = 1": {"model": {"dimension": 1}},
    "K = 6": {"model": {"dimension": 6}},
    "32 bits": {"ring": {"bits": 32, "fraction_bits": 20}},
    "below the floor": {"floor": 100, "participation": {"online": 0.5}},
    "no context": {"features": {"context": False}},
    "another seed": {"seed": 2**63 - 1},
}

PRIVATE_ROUNDS = {
    "as preset": {},
    "some offline, some lost": {"participation": {"online": 0.85, "dropout": 0.15}},
    "some cohorts stay closed": {"participation": {"online": 0.69, "dropout": 0.05}},
    "gamma 0": {"linear": {"mixing": "fixed", "gamma": 0.0}},
    "gamma 1": {"linear": {"mixing": "fixed", "gamma": 1.0}},
    "clips that bite": {"linear": {"clip": 0.01}, "interaction": {"clip": 0.001}},
    "clips that never bite": {"linear": {"clip": 50.0}, "interaction": {"clip": 20.0}},
    "K = 1": {"model": {"dimension": 1}},
    "32 bits": {"ring": {"bits": 32}, "participation": {"dropout": 0.05}},
    "a budget of 100": {"privacy": {"epsilon_per_user": 100.0}},
    "most of it for mixing": {"privacy": {"mixing": 5.0}},
    "nobody may be lost": {"sums": {"lost": 0.0, "corrupt": 0.0}},
    "a cap": {"popularity": {"cap": 2}},
    "no popularity": {"features": {"dynamic": False}},
    "below the floor": {"floor": 100, "neighbours": {"size": 100}, "participation": {"online": 0.5}},
    "another seed": {"seed": 2**63 - 1},
}
