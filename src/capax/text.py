"""Values in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def duration(seconds: float) -> str:
    """Seconds in the largest unit of which they are one or more: 9.5 s, 1 min, 600 h, 8 years."""
    units = (("years", 31_557_600), ("h", 3600), ("min", 60))
    unit, size = next(((unit, size) for unit, size in units if seconds >= size - size / 120), ("s", 1))
    amount = round(seconds / size, 1)
    if amount == 0 < seconds:
        return "<0.1 s"
    if amount >= 1e6:
        return f"{amount:.2g} {unit}"
    unit = "year" if (unit, amount) == ("years", 1) else unit
    return f"{amount:.0f} {unit}" if amount >= 10 or amount.is_integer() else f"{amount} {unit}"


def amount(value: float, unit: str = "") -> str:
    """A number in three digits, with a prefix from a thousand on."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


MOST_VALUES = 6
"""Values that are named one by one."""


def percent(share: float) -> str:
    """A share in percent, with the digits that it has."""
    return f"{100 * share:.6g}%"


def whole_percent(share: float) -> str:
    """A share in whole percent; a small one is not nothing, and nearly all is not all."""
    if 0 < share < 0.005:
        return "less than 0.5%"
    return "more than 99.5%" if 0.995 < share < 1 else f"{share:.0%}"


def together(words: Sequence[str]) -> str:
    """Words as a list: a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def listed(values: Collection[int]) -> str:
    """Numbers in words: whole ranges by their ends, a few by name."""
    ordered = sorted(set(values))
    first, last = ordered[0], ordered[-1]
    if len(ordered) > 2 and last - first == len(ordered) - 1:
        return f"{first} to {last}"
    if len(ordered) > MOST_VALUES:
        return f"{first} to {last} ({len(ordered)} of them)"
    return together([str(value) for value in ordered])


def counted(values: Collection[int] | int, one: str) -> str:
    """How many of a thing: 1 head, 1 to 4 heads."""
    several = {values} if isinstance(values, int) else set(values)
    return f"{listed(several)} {one}{'s' * (several != {1})}"


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers that rise, runs of three and more by their ends: 0–4, 7, 8."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


class Over:
    """Specs that differ in sizes alone, and what their fields are in words."""

    def __init__(self, specs: Iterable[object]) -> None:
        self._specs = list(specs)

    def values(self, name: str) -> list[int]:
        """A field's values, where it is given."""
        return [value for spec in self._specs if (value := getattr(spec, name, None)) is not None]

    def listed(self, name: str) -> str:
        """A field's values in words."""
        return listed(self.values(name))

    def counted(self, name: str, one: str) -> str:
        """How many of a thing a field says: 1 head, 1 to 4 heads."""
        return counted(self.values(name), one)
