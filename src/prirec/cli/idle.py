"""What would change nothing is a mistake: whoever asked for it had something else in mind."""

from prirec import settings_file
from prirec.errors import UsageError
from prirec.settings import Settings, preset

ROUNDS, SAMPLES = "rounds", "the paper's schedule"
READ_BY = {  # what is not here is read by every schedule, or is refused elsewhere
    "order": (SAMPLES,),
    "interaction.batch": (SAMPLES,),
    "neighbours.among": (SAMPLES,),
    "neighbours.weights": (SAMPLES,),
    "neighbours.scale_km": (SAMPLES,),
    "ring.bound": (SAMPLES,),
    "interaction.clip": (ROUNDS,),
    "linear.clip": (ROUNDS,),
    "linear.kappa": (ROUNDS,),
    "linear.gamma": (ROUNDS, SAMPLES),
    "linear.mixing": (ROUNDS, SAMPLES),
    "participation.online": (ROUNDS, SAMPLES),
    "sums.corrupt": (ROUNDS,),
    "sums.lost": (ROUNDS,),
}
CALLED = {"rounds": ROUNDS, "samples": SAMPLES, "centralised": "the centralised model"}


def refuse_idle(settings: Settings, *, neighbours: int | None, engine: str) -> None:
    """Flags and settings that nothing in this training would read."""
    here, central = CALLED[settings.schedule], settings.schedule == "centralised"
    if neighbours is not None and central:
        raise UsageError("--neighbours has no meaning here: the centralised model has no neighbours")
    if engine in ("plain", "protocol") and central:
        raise UsageError(f"--engine {engine} has no meaning here: the centralised model has one engine; leave it out")
    for name in settings_file.changed(settings, since=preset(settings.preset)):
        if here not in READ_BY.get(name, (here,)):
            raise UsageError(
                f"{name} is read by {' and '.join(READ_BY[name])} alone, not by {here}; leave it as it was"
            )
