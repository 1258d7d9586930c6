"""Who is let in to enrol, and how many at a time.

Where the operator hands out a code, a wrong one costs its address and everyone a guess, and the right one costs none.
Who has no guess left is refused unheard: else the right one could still be told from the rest.

One guesser keeps out those behind its own address, and nobody else. Somebody with fifty addresses or more can keep all
newcomers waiting: that is the lesser harm, for with the code he could enrol a crowd of his own. Who is enrolled already
notices none of it.
"""

from prirec.contract.wire import SignedEnrolment
from prirec.errors import PeerError
from prirec.recommender.auth import Doorkeeper
from prirec.recommender.limits import Buckets, Limits


class Newcomers:
    """Of one worker; others count for themselves."""

    def __init__(self, door: Doorkeeper, *, limits: Limits):
        self._door = door
        self._each, self._all = Buckets[str](limits.enrolment, most=limits.remembered), Buckets[str](limits.enrolments)
        self._guesses = Buckets[str](limits.guess, most=limits.remembered)
        self._all_guesses = Buckets[str](limits.guesses)

    def let_in(self, signed: SignedEnrolment, *, address: str, now: float) -> None:
        """PeerError AUTH if it does not hold, RefusedError if it is one too many."""
        if self._door.asks_for_code:
            self._hear(signed, address=address, now=now)
        else:  # there is nothing to guess
            self._door.enrolling(signed)
        self._each.take(address, now=now)
        self._all.take("", now=now)

    def _hear(self, signed: SignedEnrolment, *, address: str, now: float) -> None:
        self._guesses.refuse_spent(address, now=now)
        self._all_guesses.refuse_spent("", now=now)
        try:
            self._door.enrolling(signed)
        except PeerError:
            self._guesses.take(address, now=now)
            self._all_guesses.take("", now=now)
            raise
