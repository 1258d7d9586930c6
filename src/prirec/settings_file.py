"""Settings from and to TOML. Unknown keys are refused, with the nearest known name.

Settings that earlier versions had are in files, saved runs and charters. At the value that they had by default they
change nothing and are ignored; any other value asks for something that this version cannot do, and is refused.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from prirec.damage import NOT_TOML
from prirec.errors import DataError, UsageError
from prirec.settings import DIVERGES, Latent, Section, Settings, preset
from prirec.settings_check import check

_LONGEST = 65_536
# settings of earlier versions, as section.name: the default, and what to do about any other value
GONE: dict[str, tuple[Any, str]] = {
    "privacy.local": (
        0.0,
        "devices give no local answers any more; remove the setting, and noisy sums have all of "
        "privacy.epsilon_per_user",
    ),
}


def load(path: Path | None = None, *, changes: Mapping[str, Any] | None = None, base: str = "private") -> Settings:
    """The preset that the file or `base` names, changed by the file, then by `changes` ("model.dimension" -> 8)."""
    table = {} if path is None else _read(path)
    given = _nested(changes or {})
    name = given.get("preset", table.get("preset", base))
    return check(apply(apply(preset(str(name)), table), given))


def loads(text: str) -> Settings:
    """Settings from the text that `dump` wrote."""
    if len(text) > _LONGEST:
        raise UsageError(f"settings are at most {_LONGEST} characters of text")
    try:
        table = tomllib.loads(text)
    except NOT_TOML:
        raise UsageError("these settings are not TOML") from None
    return check(apply(preset(str(table.get("preset"))), table))


def apply(settings: Settings, table: Mapping[str, Any]) -> Settings:
    """Settings changed by a nested table."""
    table = _without_gone(table)
    _refuse_unknown(table, settings, "")
    _refuse_huge(table)
    merged = _merge(msgspec.to_builtins(settings), table)
    try:
        return msgspec.convert(merged, Settings)
    except msgspec.ValidationError as error:
        raise UsageError(_in_words(str(error))) from None


def _without_gone(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table without settings of earlier versions; UsageError where one of them is not at its default."""
    left = {name: dict(value) if isinstance(value, Mapping) else value for name, value in table.items()}
    for name, (default, advice) in GONE.items():
        section, _, key = name.partition(".")
        inner = left.get(section)
        if isinstance(inner, dict) and key in inner and inner.pop(key) != default:
            raise UsageError(f"{name} is a setting of an earlier version: {advice}")
    return left


def _in_words(error: str) -> str:
    """msgspec's complaint, with the setting's own name and, where there are only a few, what it may be."""
    problem, _, place = error.partition(" - at ")
    name = place.strip("`").removeprefix("$.")
    hint: Any = Settings
    for step in name.split("."):
        hint = get_type_hints(hint).get(step) if isinstance(hint, type) else None
    allowed = [str(word) for word in get_args(hint) if isinstance(word, str)]
    why = f". {DIVERGES}; to watch it, say ones-diverges" if "'ones'" in problem and "ones-diverges" in allowed else ""
    return f"{name}: {problem}" + (f"; it may be {', '.join(allowed)}{why}" if allowed else "")


def dump(settings: Settings) -> str:
    """TOML that `load` reads back to the same settings."""
    return "\n".join(_lines(written(settings))) + "\n"


def written(settings: Settings) -> dict[str, Any]:
    """What is written down of settings. An option that came later and was left alone is not: settings that say nothing
    of it are those from before it, with the same text and the same hash."""
    table: dict[str, Any] = msgspec.to_builtins(settings)
    if settings.latent == Latent():
        del table["latent"]
    return table


def changed(settings: Settings, *, since: Settings | None = None) -> dict[str, Any]:
    """By name, those that are not what they were, or what every setting is by default: a setting that is added later,
    and stands at its default, is not among them."""
    usual = dict(_flat(msgspec.to_builtins(Settings() if since is None else since)))
    return {name: value for name, value in _flat(msgspec.to_builtins(settings)) if value != usual[name]}


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in sorted(table.items()):
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no settings file {path}") from None
    except OSError as error:
        raise UsageError(f"the settings file {path} cannot be read: {error.strerror}") from None
    except NOT_TOML as error:
        raise DataError(f"not a TOML file: {error}", file=path) from None


def _nested(changes: Mapping[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in changes.items():
        *path, last = key.split(".")
        inner = table
        for step in path:
            inner = inner.setdefault(step, {})
            if not isinstance(inner, dict):
                raise UsageError(f"'{key}' contradicts another change: give each setting once")
        inner[last] = value
    return table


def _refuse_unknown(table: Mapping[str, Any], section: Section, prefix: str) -> None:
    known = section.__struct_fields__
    for key, value in table.items():
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean '{prefix}{near[0]}'?" if near else f"known here: {', '.join(known)}"
            raise UsageError(f"unknown setting '{prefix}{key}'; {hint}")
        inner = getattr(section, key)
        if isinstance(value, Mapping) and not isinstance(inner, Section):
            raise UsageError(f"'{prefix}{key}' is a single setting, not a section")
        if isinstance(inner, Section):
            if not isinstance(value, Mapping):
                raise UsageError(f"'{prefix}{key}' is a section: write [{prefix}{key}] and its settings below")
            _refuse_unknown(value, inner, f"{prefix}{key}.")


def _refuse_huge(table: Mapping[str, Any]) -> None:
    """A whole number beyond 64 bits means nothing here, and overflows where it meets a float."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            _refuse_huge(value)
        elif isinstance(value, int) and abs(value) > 2**64:
            raise UsageError(f"{key}: a whole number has at most 64 bits")


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        merged[key] = _merge(below[key], value) if isinstance(value, Mapping) else value
    return merged


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    yield from (f"{key} = {_literal(value)}" for key, value in plain.items() if value is not None)
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from ("", f"[{key}]", *_lines(value))


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
