"""A device in a deployment over two operators: in which windows it reports, what it writes down, and what it sends.

It enters a window that its own log names, of the sum that it has worked out by itself, while a margin of the window is
left and the helper's signature on the log is fresh. Report, charge and journal are one transaction: after a crash all
of it is there, and the same bytes are sent again, or nothing has happened. They are sent until the recommender says
that it has them, or the sum is over; then they are erased. No sum takes a second report.

Whether a device reports never depends on its records; where these cannot be used it reports zeros, at the full price
(device/rounds.py). When it does is for device/agent.py.
"""

from collections.abc import Callable
from contextlib import suppress
from os import urandom

from prirec.device.ledger import LedgerStore, Price, Rows, load_floor
from prirec.device.person import Person
from prirec.device.rounds import NOT_IN_TIME, Contribution, is_current, model_at, purpose
from prirec.device.store import write_journal
from prirec.device.sync import View
from prirec.errors import PolicyError, PrirecError, StateError
from prirec.privacy.accountant import Spent
from prirec.protocols import terms
from prirec.protocols.codec import ring_zeros
from prirec.protocols.messages import Round
from prirec.protocols.party import Action, Persist, Stage
from prirec.protocols.two_operators import Device, JointTask
from prirec.sharing.keys import SigningKey
from prirec.types import DAY, RingArray
from prirec.wire.documents import Window

LATEST_HEAD = DAY  # seconds: with an older signature of the helper's a device takes part in nothing
LEAST_MARGIN = 600  # seconds before a window closes in which nobody begins to report; or a tenth of it, if that is less


def margin(window: Window) -> float:
    return min(LEAST_MARGIN, (window.closes - window.opens) / 10)


class Windows:
    """The windows that a device reports in. `clock` is the time in seconds since 1970.

    It computes nothing from records by itself: whoever drives it computes the contributions of `waiting` rounds, and
    hands them over with `supply`."""

    def __init__(
        self, person: Person, paid: LedgerStore, *, identity: SigningKey, clock: Callable[[], float],
        entropy: Callable[[int], bytes] = urandom,
    ) -> None:  # fmt: skip
        self._person, self._paid, self._identity, self._clock, self._entropy = person, paid, identity, clock, entropy
        self._tasks: dict[Round, tuple[JointTask, Spent, str]] = {}
        self.waiting: list[Round] = []  # rounds whose contribution is to be computed
        # why the last window was not entered, or its report is not taken; the same is one, however often it is tried
        self.declined: PrirecError | None = None
        self._declined_at: Round | None = None
        self.empty: str | None = None  # why this device added nothing but zeros to a sum, the last time

    def open(self, view: View) -> Round | None:
        """The round whose window is open to this device now, and that it has not entered; nothing private counts."""
        of = _round(view)
        window = None if of is None else view.window
        if window is None or of is None or not window.opens <= self._now(view) < window.closes - margin(window):
            return None
        return of if 0 < view.member.joined <= window.entries and not self._entered(of) else None

    def seconds_left(self, view: View) -> float:
        """Until nobody begins to report in the window."""
        return 0.0 if view.window is None else view.window.closes - margin(view.window) - self._now(view)

    def enter(self, view: View) -> bool:
        """Wait for a contribution to the open window. False, and `declined` says why, for one that is not entered."""
        of = self.open(view)
        if of is None or view.campaign is None or view.window is None:
            return False
        try:
            B = model_at(of, view, view.campaign)
            task = view.campaign.joint(view.window, B=B)
            cost = terms.privacy_cost(task.terms, norm=view.campaign.norm(of.kind))
            self._check(view, task, cost)
        except PrirecError as refusal:
            self.decline(of, refusal)
            return False
        self._tasks, self.waiting = {of: (task, cost, purpose(of.kind, view.campaign))}, [of]
        return True

    def supply(self, of: Round, made: Contribution | None) -> None:
        """The contribution to a round that waits for it; None if it was not computed in time. The report is written
        down, and paid for."""
        self.waiting.remove(of)
        task, cost, what = self._tasks.pop(of)
        nothing = Contribution(b"", ring_zeros(task.terms), empty=NOT_IN_TIME)
        contribution, actions = made or nothing, list[Action]()
        with suppress(Exception):  # whatever is wrong with it, nobody learns of it by a report that does not come
            actions = self._report(task, contribution.value)
        if not actions:
            contribution, actions = nothing, self._report(task, nothing.value)
        self.empty = contribution.empty or self.empty
        entered, written = (one for one in actions if isinstance(one, Persist))

        def together(rows: Rows) -> None:
            write_journal(rows, entered)
            contribution.settle(rows, of)

        price = Price(what, cost, cost)  # the worst that devices can do changes nothing
        try:
            self._paid.write(written, day=self._day(), price=price, together=together)
        except PrirecError as refusal:
            self.decline(of, refusal)  # nothing is sent

    def decline(self, of: Round, refusal: PrirecError) -> None:
        if (of, str(refusal)) != (self._declined_at, str(self.declined)):
            self._declined_at, self.declined = of, refusal

    def pending(self, view: View) -> tuple[Round, bytes] | None:
        """A report that is written down and has not arrived, while its window is open."""
        of = _round(view)
        if of is None or view.window is None or self._now(view) >= view.window.closes:
            return None
        held = self._person.store.entry(of)
        if held is None or held.round != of or held.stage is not Stage.MASKED or not held.payload:
            return None
        return of, held.payload

    def arrived(self, of: Round) -> None:
        """The recommender has the report: it is erased here."""
        held = self._person.store.entry(of)
        if held is not None and held.round == of:
            self._paid.write(Persist(of, Stage.AGREED, held.digest), day=self._day())

    def _report(self, task: JointTask, value: RingArray) -> list[Action]:
        return Device(task, identity=self._identity, value=value, draw=self._entropy).report()

    def _entered(self, of: Round) -> bool:
        held = self._person.store.entry(of)
        return held is not None and held.round == of

    def _check(self, view: View, task: JointTask, cost: Spent) -> None:
        """PolicyError for a window that this device does not enter, though it could; StateError for a stale log."""
        signed = view.cosigned
        if signed is None or signed.time < self._clock() - LATEST_HEAD:
            raise StateError(
                "the helper has not signed the recommender's log for a day, or this device's clock is wrong; nothing "
                "is sent until it has"
            )
        with self._person.store.reading() as rows:
            floor = load_floor(rows)
        if floor > task.terms.floor:
            raise PolicyError(
                f"this person takes part only in sums over at least {floor} devices, and this one may be opened over "
                f"{task.terms.floor}"
            )
        if self._paid.how_many_more(cost, day=self._day()) < 1:
            what = purpose(task.round.kind, view.campaign)
            raise PolicyError(f"this person's privacy budget does not cover another round for {what}")

    def _now(self, view: View) -> float:
        """Not before the helper's last signature, whatever this device's clock says."""
        return max(self._clock(), 0 if view.cosigned is None else view.cosigned.time)

    def _day(self) -> int:
        return int(self._clock() // DAY)


def _round(view: View) -> Round | None:
    """The round of the campaign's window, if the log is at it."""
    with suppress(PrirecError):  # a document is damaged: it is fetched anew when the log is followed
        if view.window is not None and view.window.charter == view.latest.get("charter"):
            of = Round(view.member.deployment, view.window.kind, view.window.number)
            return of if is_current(of, view) else None
    return None
