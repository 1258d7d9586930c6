"""Names that a shell completes. They are listed where they are asked for, not loaded: a shell waits for them."""

from collections.abc import Callable, Sequence


def among(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Those that begin as the word does. A name of several words is left out: shells would take it apart."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete) and " " not in name]

    return complete
