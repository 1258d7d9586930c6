"""Changes of settings under which every engine that runs rounds must equal the oracle."""

ROUNDS = {
    "as preset": {},
    "some offline, some lost": {"participation": {"online": 0.7, "dropout": 0.15}},
    "32 bits": {"ring": {"bits": 32, "fraction_bits": 20}},
    "fewer fraction bits": {"ring": {"fraction_bits": 6}},
    "below the floor in some rounds": {"floor": 100, "participation": {"online": 0.67}},
    "nobody may be lost": {"sums": {"lost": 0.0}, "participation": {"online": 0.9}},
    "no context": {"features": {"context": False}},
    "no popularity": {"features": {"dynamic": False}},
    "own history and areas": {"features": {"own_history": True, "areas": 3}},
    "later records": {"data": {"split": "time"}},
    "another seed": {"seed": 2**63 - 1},
}

PRIVATE_ROUNDS = {
    "as preset": {},
    "some offline, some lost": {"participation": {"online": 0.85, "dropout": 0.15}},
    "too many lost in some rounds": {"participation": {"dropout": 0.2}, "sums": {"lost": 0.199}},
    "32 bits": {"ring": {"bits": 32}, "participation": {"dropout": 0.05}},
    "a budget of 50": {"privacy": {"epsilon_per_user": 50.0}},
    "parts by hand": {"privacy": {"popularity": 1.0, "moments": 2.0, "interaction": 3.0}},
    "a part for quality figures": {"privacy": {"quality": 0.2}},
    "nobody may be lost": {"sums": {"lost": 0.0, "corrupt": 0.0}},
    "two operators": {"sums": {"operators": 2}},
    "two operators, many lost": {"sums": {"operators": 2}, "participation": {"online": 0.9, "dropout": 0.3}},
    "a cap": {"popularity": {"cap": 2}},
    "no popularity": {"features": {"dynamic": False}},
    "own history and areas": {"features": {"own_history": True, "areas": 3}},
    "another seed": {"seed": 2**63 - 1},
}
