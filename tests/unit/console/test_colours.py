"""Every text can be read on its ground, in light and in dark: at least 4.5 to 1 (WCAG 2.2, AA)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

STYLE = (Path(__file__).parents[3] / "services/console/static/style.css").read_text()
_VARIABLE = re.compile(r"--([\w-]+): (#[0-9a-f]{6})")
PAIRS = [
    *((text, ground) for text in ("text", "weak", "link") for ground in ("ground", "card", "mute-ground")),
    *((name, f"{name}-ground") for name in ("good", "bad", "warn", "calm")),
    *(("text", f"{name}-ground") for name in ("good", "bad", "calm")),
    ("bad", "card"),
    ("on-accent", "accent"),
]


def _themes() -> dict[str, dict[str, str]]:
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)", 1)
    found = dict(_VARIABLE.findall(light))
    return {"light": found, "dark": found | dict(_VARIABLE.findall(dark.split("\n}\n", 1)[0]))}


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_a_text_can_be_read_on_its_ground(theme: str, text: str, ground: str) -> None:
    colours = _themes()[theme]
    assert contrast(colours[text], colours[ground]) >= 4.5


@pytest.mark.parametrize("shade", range(11))
def test_a_tile_of_the_heat_map_can_be_read(shade: int) -> None:
    found = re.search(rf"\.shade-{shade} {{ background: (#\w+); color: (#\w+); }}", STYLE)
    assert found is not None
    assert contrast(found[1], found[2]) >= 4.5
