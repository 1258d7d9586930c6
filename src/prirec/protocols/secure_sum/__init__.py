"""A secure sum: one protocol for both openings (to the collector, to the members) and for both mask graphs.

Who holds what decides who can open, not a second implementation:

    member u sends    y_u = x_u + own pad(b_u) + sum over neighbours v of ± pad(s_uv)  [+ members' pad_u]    in the ring
    the collector     adds up the y_u of the survivors; from shares that their neighbours give out it learns b_u of each
                      survivor and the mask key of each that was lost, never both of one, and takes those pads off
    the members       where they open, take off the pads whose key the collector never had

Correct: between two survivors the pads cancel; between a survivor and one that was lost the pad follows from the lost
one's mask key; own pads follow from the seeds; ring sums are exact. Anything that does not fit (a share, a seed, a key)
is noticed by a commitment and ends the round without a sum.

Private: y_u is under own pad(b_u), which is uniform to whoever lacks b_u; and once b_u is open, under the pads of the
edges to honest survivors, who stay connected (decisions/0011), so that beyond their sum the y_u are uniform. b_u and
the mask key of one person are never both open, since each honest holder answers once and 2t > k + 1 + c.

Against a collector that cheats, the device itself insists: on its own terms and its own hash of V, signed by every
neighbour's identity together with the roster, and bound into every box and mask; on one list of survivors, signed by t
holders of its shares; on neighbours who were told of the same boxes as itself; on the fewest survivors that the terms
allow; on one answer a round.
"""
