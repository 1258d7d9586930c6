"""Building blocks of secure sums: fixed point in Z_2^64, secret sharing, keys, masks, hash trees."""
