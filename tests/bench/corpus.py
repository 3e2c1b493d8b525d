"""Natural mixed text, made anew the same each time: four languages and scripts, code, and tool results."""

from __future__ import annotations

import random

SENTENCES = (
    "The meeting was moved to Thursday because two of the speakers could not come.",
    "Could you check whether the backup of last night is complete, and tell me its size?",
    "Der Zug nach Hamburg fährt heute wegen einer Störung erst eine halbe Stunde später ab.",
    "Ich habe die Rechnung gestern bezahlt, aber die Bestätigung ist noch nicht gekommen.",
    "明天下午三点在公司门口见面，然后一起去看新的办公室。",
    "请把这份报告翻译成英文，并检查里面的数字是否正确。",
    "来週の会議の資料を準備して、みんなに送ってください。",
    "このエラーは設定ファイルの三行目が原因だと思います。",
    "พรุ่งนี้เราจะไปตลาดตอนเช้าแล้วกลับมาทำอาหารด้วยกัน",
    "We found that the service restarts whenever the disk is more than ninety percent full.",
    "It rained for most of the week, so the garden looks greener than it did in spring.",
    "Die Katze sitzt am Fenster und beobachtet die Vögel im Apfelbaum.",
)
CODE = (
    "def mean(values):\n    return sum(values) / len(values)\n",
    'for name in *.log; do\n  gzip "$name" && echo "$name done"\ndone\n',
    "SELECT person, count(*) FROM orders WHERE year = 2026 GROUP BY person;\n",
)


def text(rng: random.Random, size: int) -> str:
    """About `size` bytes of text: sentences with numbers and names in them, now and then some code."""
    parts: list[str] = []
    length = 0
    while length < size:
        part = rng.choice(SENTENCES) if rng.random() < 0.9 else f"```\n{rng.choice(CODE)}```"
        if rng.random() < 0.5:
            part += f" ({rng.choice(('item', 'order', 'page', 'Zeile', '第'))} {rng.randrange(100_000)})"
        parts.append(part)
        length += len(part.encode()) + 1
    return " ".join(parts)


def listing(rng: random.Random, lines: int) -> str:
    """What a command prints: a listing of files."""
    rows = [
        f"-rw-r--r-- 1 user user {rng.randrange(10, 10**7):>8} 2026-0{rng.randrange(1, 9)}-1{rng.randrange(9)} "
        f"{rng.choice(('report', 'photo', 'notes', 'invoice'))}-{rng.randrange(10_000)}.{rng.choice(('txt', 'pdf'))}"
        for _ in range(lines)
    ]
    return "\n".join(rows)
