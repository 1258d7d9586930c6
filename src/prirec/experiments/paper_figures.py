"""What the paper prints, to stand beside what is measured here."""

from collections.abc import Mapping

TABLE_2 = {
    "Foursquare": (11_824, 13_924, 924_474, 6),
    "Koubei": (85_466, 118_598, 497_838, 89),
}  # users, items, interactions, features

# (model, K, training share) -> AUC
TABLE_4: Mapping[tuple[str, int, float], float] = {
    ("FM", 5, 0.8): 0.8152, ("PriRec-", 5, 0.8): 0.4777, ("PriRec", 5, 0.8): 0.7834,
    ("FM", 5, 0.9): 0.8106, ("PriRec-", 5, 0.9): 0.4722, ("PriRec", 5, 0.9): 0.7818,
    ("FM", 10, 0.8): 0.8145, ("PriRec-", 10, 0.8): 0.4771, ("PriRec", 10, 0.8): 0.7831,
    ("FM", 10, 0.9): 0.8098, ("PriRec-", 10, 0.9): 0.4727, ("PriRec", 10, 0.9): 0.7824,
    ("FM", 15, 0.8): 0.8131, ("PriRec-", 15, 0.8): 0.4749, ("PriRec", 15, 0.8): 0.7829,
    ("FM", 15, 0.9): 0.8083, ("PriRec-", 15, 0.9): 0.4702, ("PriRec", 15, 0.9): 0.7816,
}  # fmt: skip
TABLE_5: Mapping[tuple[str, int, float], float] = {
    ("FM", 5, 0.8): 0.7154, ("PriRec-", 5, 0.8): 0.7484, ("PriRec", 5, 0.8): 0.7605,
    ("FM", 5, 0.9): 0.7172, ("PriRec-", 5, 0.9): 0.7495, ("PriRec", 5, 0.9): 0.7695,
    ("FM", 10, 0.8): 0.7180, ("PriRec-", 10, 0.8): 0.7519, ("PriRec", 10, 0.8): 0.7633,
    ("FM", 10, 0.9): 0.7205, ("PriRec-", 10, 0.9): 0.7534, ("PriRec", 10, 0.9): 0.7713,
    ("FM", 15, 0.8): 0.7192, ("PriRec-", 15, 0.8): 0.7529, ("PriRec", 15, 0.8): 0.7643,
    ("FM", 15, 0.9): 0.7207, ("PriRec-", 15, 0.9): 0.7546, ("PriRec", 15, 0.9): 0.7720,
}  # fmt: skip
