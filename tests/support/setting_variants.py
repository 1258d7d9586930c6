"""Changes of settings under which every engine that runs rounds must equal the oracle."""

ROUNDS = {
    "as preset": {},
    "some offline, some lost": {"participation": {"online": 0.7, "dropout": 0.3}},
    "gamma 0": {"linear": {"mixing": "fixed", "gamma": 0.0}},
    "gamma 1": {"linear": {"mixing": "fixed", "gamma": 1.0}},
    "clips that bite": {"linear": {"clip": 0.1}, "interaction": {"clip": 0.001}},
    "K = 1": {"model": {"dimension": 1}},
    "K = 11": {"model": {"dimension": 11}},
    "32 bits": {"ring": {"bits": 32, "fraction_bits": 20}},
    "below the floor": {"floor": 100, "participation": {"online": 0.5}},
    "no context": {"features": {"context": False}},
    "another seed": {"seed": 2**63 - 1},
}

LATENT_ROUNDS = {
    "K' = 3": {"latent": {"dimension": 3}},
    "K' = 1": {"latent": {"dimension": 1}},
    "K' = 8, some offline, some lost": {"latent": {"dimension": 8}, "participation": {"online": 0.7, "dropout": 0.3}},
    "K' = 3, clips that bite": {"latent": {"dimension": 3}, "interaction": {"clip": 0.001}},
    "K' = 3, 32 bits": {"latent": {"dimension": 3}, "ring": {"bits": 32, "fraction_bits": 20}},
    "K' = 3, below the floor": {"latent": {"dimension": 3}, "floor": 100, "participation": {"online": 0.5}},
    "K' = 3, other rates": {
        "latent": {"dimension": 3, "alpha": 0.3, "lambda_u": 0.0, "lambda_p": 0.2, "pace": 0.05, "weight": 2.0}
    },
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
