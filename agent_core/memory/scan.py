"""Looks for texts that want to be obeyed: in memory entries and in files that enter a prompt (B80).

A text is looked at as people read it: compatibility forms (full width, ligatures) folded, invisible characters taken
out, and once more with look-alike letters of other scripts as Latin ones. What is found is a reason in words; what to
do about it is the caller's decision. False alarms cost a person a sentence, so that the patterns are narrow.
"""

from __future__ import annotations

import re
import unicodedata

_LOOK_ALIKES = str.maketrans(
    "авекмнорстухіјѕԁɡҽοανεικρτυχѵᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ",
    "abekmhopctyxijsdgeoavsikptuxvabcdeghijklmnoprstuvwyz",
)

_DROPS = "it asks to drop the rules"
_W = r"(?:\w+\s+){0,4}?"
_RULES: tuple[tuple[str, str], ...] = (
    # English
    (
        rf"(?:ignor|disregard|forget|overrid)\w*\s+{_W}(?:previous|prior|above|earlier|preceding|all|your)\s+{_W}"
        r"(?:instruction|rule|prompt|guideline|direction)s?\b",
        _DROPS,
    ),
    (
        r"\b(?:you are now|act as if you were|pretend (?:to be|that you are))\b.{0,40}"
        r"\b(?:unrestricted|jailbroken|developer mode|dan|no rules)\b",
        "it asks for another role",
    ),
    (rf"(?:reveal|print|show|repeat|output)\w*\s+{_W}system\s+prompt", "it asks for the system prompt"),
    (r"do not (?:tell|inform|mention (?:this|it) to) (?:the )?(?:user|human|owner|person)", "it asks for secrecy"),
    (
        rf"(?:send|post|upload|forward|e-?mail|exfiltrat)\w*\s+{_W}{_W}"
        r"(?:api[ _-]?key|password|token|secret|credential|private key)s?\b",
        "it asks for secrets to be sent",
    ),
    # German, French, Spanish, Portuguese, Italian, Russian
    (
        rf"(?:ignorier|vergiss|missacht)\w*\s+{_W}(?:vorherig|bisherig|obig|früher|all)\w*\s+{_W}"
        r"(?:anweisung|regel|vorgabe)",
        _DROPS,
    ),
    (rf"(?:ignore[zr]?|oublie[zr]?)\s+{_W}(?:instructions?|consignes?|regles?|règles?)", _DROPS),
    (
        rf"(?:ignora|olvida|ignore|esqueca|esqueça|dimentica)\w*\s+{_W}"
        r"(?:instrucciones|instruções|instrucoes|istruzioni|reglas|regras|regole)",
        _DROPS,
    ),
    (rf"(?:игнорируй|забудь|проигнорируй)\w*\s+{_W}(?:инструкци|правил|указани)", _DROPS),
    # Chinese, Japanese, Korean, Arabic, Hindi
    (r"(?:忽略|無視|无视|忘记|忘記).{0,12}(?:指令|指示|规则|規則|提示|命令)", _DROPS),
    (r"(?:指示|命令|ルール|規則|プロンプト)を?.{0,6}(?:無視|忘れ|破棄)", _DROPS),
    (r"(?:이전|위의|모든)\s*(?:지시|명령|규칙|지침).{0,8}(?:무시|잊)", _DROPS),
    (r"(?:تجاهل|انس).{0,20}(?:التعليمات|الأوامر|القواعد)", _DROPS),
    (r"(?:निर्देश|नियम).{0,20}(?:अनदेखा|नज़रअंदाज़|भूल)", _DROPS),
    # commands that take secrets away, or let somebody in
    (
        r"\b(?:curl|wget|nc|scp|rsync)\b.{0,200}"
        r"(?:\$\{?\w*(?:key|token|secret|passw)\w*|\.env\b|id_(?:rsa|ed25519)|/etc/shadow)",
        "it takes secrets away",
    ),
    (r"authorized_keys|/etc/sudoers|ssh-(?:rsa|ed25519)\s+aaaa", "it lets somebody in"),
    (r"\b(?:curl|wget)\b[^\n]{0,200}\|\s*(?:sudo\s+)?(?:ba|z)?sh\b", "it runs what it fetches"),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE | re.DOTALL), reason) for pattern, reason in _RULES)

_HIDDEN = re.compile("[\u00ad\u115f\u1160\u180e\u200b\u200e\u200f\u2060-\u2064\u3164\ufeff\uffa0\U000e0000-\U000e007f]")
_TURNED = re.compile("[\u202a-\u202e\u2066-\u2069]")
_JOINERS = "\u200c\u200d"
_BARE = re.compile(r"[^\w\s]+")


def scan(text: str) -> str | None:
    """Why the text must not enter a prompt, in words; None where nothing is found. Linear; never raises."""
    if _TURNED.search(text):
        return "it has characters that turn the direction of the text"
    if hidden := _HIDDEN.search(text):
        return f"it has an invisible character (U+{ord(hidden[0]):04X})"
    if (place := _stray_joiner(text)) is not None:
        return f"it has an invisible joiner where no script needs one (character {place + 1})"
    folded = fold(text)
    latin = folded.translate(_LOOK_ALIKES)
    for form in dict.fromkeys((folded, latin, _plain(folded), _plain(latin))):
        for pattern, reason in _PATTERNS:
            if pattern.search(form):
                return reason
    return None


def fold(text: str) -> str:
    """As a person reads it: compatibility forms and case folded, what cannot be seen taken out, blanks single."""
    shown = unicodedata.normalize("NFKC", text).casefold()
    shown = "".join(char for char in shown if unicodedata.category(char) != "Cf")
    return " ".join(shown.split())


def _plain(folded: str) -> str:
    """Without marks between letters ("i.g.n.o.r.e") and accents."""
    letters = "".join(
        char for char in unicodedata.normalize("NFD", folded) if unicodedata.category(char) != "Mn" or ord(char) > 0x36F
    )
    return " ".join(_BARE.sub("", letters).split())


def _stray_joiner(text: str) -> int | None:
    """Where a zero-width joiner stands that neither an emoji, nor Arabic, Indic and their likes need."""
    for place, char in enumerate(text):
        if char not in _JOINERS:
            continue
        before, after = text[place - 1] if place else "", text[place + 1] if place + 1 < len(text) else ""
        if not (_may_join(before) and (not after or _may_join(after) or char == "\u200c")):
            return place
    return None


def _may_join(char: str) -> bool:
    """True for characters of scripts and pictures that are joined."""
    if not char:
        return False
    point = ord(char)
    return (
        0x0590 <= point <= 0x08FF  # Hebrew, Arabic, Syriac, N'Ko
        or 0x0900 <= point <= 0x0DFF  # the Indic scripts
        or 0x0F00 <= point <= 0x109F  # Tibetan, Burmese
        or 0x1780 <= point <= 0x18AF  # Khmer, Mongolian
        or 0xFB50 <= point <= 0xFEFF
        or 0x2190 <= point <= 0x2BFF
        or point == 0xFE0F
        or 0x1F000 <= point <= 0x1FAFF
        or unicodedata.category(char) in ("So", "Sk", "Mn", "Mc")
    )
