"""Changes of settings under which every engine that runs rounds must equal the oracle."""

ROUNDS = {
    "as preset": {},
    "some offline, some lost": {"participation": {"online": 0.7, "dropout": 0.15}},
    "32 bits": {"ring": {"bits": 32, "fraction_bits": 20}},
    "below the floor": {"floor": 100, "participation": {"online": 0.5}},
    "no context": {"features": {"context": False}},
    "no own history": {"features": {"own_history": False}},
    "areas": {"features": {"areas": 4}},
    "another seed": {"seed": 2**63 - 1},
}

PRIVATE_ROUNDS = {
    "as preset": {},
    "some offline, some lost": {"participation": {"online": 0.85, "dropout": 0.15}},
    "some rounds stay closed": {"floor": 100, "participation": {"online": 0.69, "dropout": 0.05}},
    "32 bits": {"ring": {"bits": 32}, "participation": {"dropout": 0.05}},
    "a budget of 100": {"privacy": {"epsilon_per_user": 100.0}},
    "most of it for popularity": {"privacy": {"popularity": 0.9, "moments": 0.03, "interaction": 0.07}},
    "nobody may be lost": {"sums": {"lost": 0.0, "corrupt": 0.0}},
    "a cap": {"popularity": {"cap": 2}},
    "no popularity": {"features": {"dynamic": False}},
    "below the floor": {"floor": 100, "participation": {"online": 0.5}},
    "another seed": {"seed": 2**63 - 1},
}
