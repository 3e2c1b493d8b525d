"""Natural mixed text, made anew the same each time: five languages and scripts, code, and tool results.

Words are drawn by Zipf's law from a few hundred stems a language, with endings, names and numbers, so that
one row packs as real prose does, and the whole has as many different words and trigrams as real prose has.
(Whole sentences drawn from a short list do the first and not the second, which flatters a search index.)
"""

from __future__ import annotations

import random
from itertools import accumulate
from pathlib import Path


def _read() -> dict[str, list[str]]:
    """The words of each language, the most frequent first, from the file beside this module."""
    found: dict[str, list[str]] = {}
    words: list[str] = []
    for line in Path(__file__).with_name("words.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            words = found[line.strip("[]")] = []
        else:
            words.extend(line.split())
    return found


_ALL = _read()
ENGLISH, GERMAN, CHINESE, JAPANESE, THAI = (
    _ALL[language] for language in ("english", "german", "chinese", "japanese", "thai")
)
SCRIPT = """def {a}_{b}(values, *, {c}=None):
    \"\"\"Return the {a} of the {b}.\"\"\"
    if not values:
        raise ValueError("{c} is empty")
    return sum(value.{b} for value in values) / len(values)
"""
SHELL = 'for name in *.{a}; do\n  gzip "$name" && mv "$name.gz" "/srv/{b}/{c}/" || echo "$name failed" >&2\ndone\n'
QUERY = "SELECT {a}, count(*) AS {b} FROM {c} WHERE {a} > 20 GROUP BY {a} ORDER BY {b} DESC LIMIT 10;\n"


def _zipf(words: list[str]) -> list[float]:
    return list(accumulate(1 / (rank + 2) for rank in range(len(words))))


_WEIGHTS = {id(words): _zipf(words) for words in (ENGLISH, GERMAN, CHINESE, JAPANESE, THAI)}


def _words(rng: random.Random, words: list[str], count: int) -> list[str]:
    return rng.choices(words, cum_weights=_WEIGHTS[id(words)], k=count)


def name(rng: random.Random) -> str:
    """A name that nobody has: of persons, places and products."""
    return "".join(rng.choices(_ALL["syllables"], k=rng.randrange(2, 4))).capitalize()


def _spaced(rng: random.Random, words: list[str], endings: tuple[str, ...]) -> str:
    parts = []
    for word in _words(rng, words, rng.randrange(6, 22)):
        draw = rng.random()
        if draw < 0.06:
            parts.append(name(rng))
        elif draw < 0.09:
            parts.append(str(rng.randrange(10_000)))
        else:
            parts.append(word + (rng.choice(endings) if len(word) > 4 and draw > 0.7 else ""))
    if len(parts) > 12:
        parts[len(parts) // 2] += ","
    return parts[0].capitalize() + " " + " ".join(parts[1:]) + rng.choice((".", ".", ".", "?", "!"))


def _japanese(rng: random.Random) -> str:
    nouns = _words(rng, JAPANESE, rng.randrange(3, 8))
    return (
        "".join(noun + rng.choice(_ALL["japanese_joins"]) for noun in nouns) + rng.choice(_ALL["japanese_ends"]) + "。"
    )


def _code(rng: random.Random) -> str:
    a, b, c = (rng.choice(ENGLISH[150:]) for _ in range(3))
    return f"\n```\n{rng.choice((SCRIPT, SHELL, QUERY)).format(a=a, b=b, c=c)}```\n"


def _sentence(rng: random.Random, language: float) -> str:
    if rng.random() < 0.06:
        return _code(rng)
    if language < 0.45:
        return _spaced(rng, ENGLISH, ("s", "ed", "ing", "er", "ly"))
    if language < 0.65:
        return _spaced(rng, GERMAN, ("en", "s", "e", "lich", "ung"))
    if language < 0.80:
        return "".join(_words(rng, CHINESE, rng.randrange(8, 24))) + "。"
    if language < 0.92:
        return _japanese(rng)
    return "".join(_words(rng, THAI, rng.randrange(6, 18)))


def text(rng: random.Random, size: int) -> str:
    """About `size` bytes of text, mostly in one language (45 % English, 20 German, 15 Chinese, 12 Japanese, 8 Thai)."""
    parts: list[str] = []
    length, language = 0, rng.random()
    while length < size:
        parts.append(_sentence(rng, language if rng.random() < 0.9 else rng.random()))
        length += len(parts[-1].encode()) + 1
    return " ".join(parts)


def listing(rng: random.Random, lines: int) -> str:
    """What a command prints: a listing of files, now and then a log."""
    if rng.random() < 0.4:
        return "\n".join(
            f"2026-0{rng.randrange(1, 9)}-1{rng.randrange(9)}T{rng.randrange(24):02}:{rng.randrange(60):02}:"
            f"{rng.randrange(60):02}Z {rng.choice(('INFO', 'WARN', 'ERROR'))} {name(rng).lower()}"
            f"[{rng.randrange(65536)}]: {' '.join(_words(rng, ENGLISH, 7))} id={rng.getrandbits(48):012x}"
            for _ in range(lines)
        )
    return "\n".join(
        f"-rw-r--r-- 1 user user {rng.randrange(10, 10**7):>8} 2026-0{rng.randrange(1, 9)}-1{rng.randrange(9)} "
        f"{rng.choice(ENGLISH[150:])}-{name(rng).lower()}-{rng.randrange(10_000)}.{rng.choice(('txt', 'pdf', 'py'))}"
        for _ in range(lines)
    )
