"""Where a small bug can be planted in C, and how."""

import re
from dataclasses import dataclass

#: Not the data path's own: what tests and captures see, and numbers that the Rust side has too.
LEFT_OUT = {"abi.h", "abi_firewall.h", "abi_router.h", "capture.h", "maps.h", "test_mode.h", "verdicts.h"}

#: What is replaced, and by what. `\1` and so on are groups.
OPERATORS = [(re.compile(rf"(?<=\s){re.escape(old)}(?=\s)"), new) for old, new in [
    ("<", "<="), ("<=", "<"), (">", ">="), (">=", ">"), ("==", "!="), ("!=", "=="),
    ("&&", "||"), ("||", "&&"), ("&", "|"), ("|", "&"), ("+", "-"), ("-", "+"),
    ("+=", "-="), ("-=", "+="), ("|=", "&="), ("&=", "|="),
]]
NOT = re.compile(r"(?<![=\w])!(?=[\w(*])")
MINUS = re.compile(r"(?<=[\s(,])-(?=[\w(])")
CONDITION = re.compile(r"\bif \((?P<condition>[^!].*)\)(?P<rest>$| \{$)")
#: `< 7` and `< 8` in its place: that is `<= 7`, which is planted as an operator. So with `>=`.
BOUND = re.compile(r"(?<!<)(<|>=) $"), re.compile(r"[);]| (&&|\|\||\?)|$")
NUMBER = re.compile(r"(?<![\w.\"])(0x[0-9a-fA-F]+|\d+)(u|ull)?(?=[^\w.\"]|$)")

#: Who asks a function that says how it went looks at the sign, or whether it is 0.
RETURN = re.compile(r"\breturn (-?\d+);")
#: A stage's, that the packet goes on: to the opposite.
GO_ON = re.compile(r"\breturn (GO_ON);")
#: Flags of a helper, and what fills a structure up: no test run sees either.
UNSEEN = re.compile(r"\bbpf_\w+\([^;]*, (0)\)|\bpad = (0);")

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
#: Lines without code: their numbers are sizes, names or text.
NO_CODE = re.compile(r"\s*(#(?!define \w+ [^\\]*$)|__uint\(|__type\(|SEC\(|asm\b|_Static_assert)|.*\bSEC\(")
#: The first line of one, for a bug's name.
FUNCTION = re.compile(r"[A-Za-z_][^=;#]*?(\w+)\([^=;]*$")
#: A declaration without a value.
DECLARATION = re.compile(r"\s*(struct \w+|__\w+|u?int\w*|bool|char|long) [^=();]*;")


@dataclass(frozen=True, order=True)
class Bug:
    """One line of a file, otherwise."""

    file: str
    line: int
    start: int
    old: str
    new: str
    function: str

    def __str__(self):
        return f"{self.file}:{self.line}: {self.function}: {self.old.strip()}   =>   {self.new.strip()}"

    @property
    def key(self):
        """What names it in known.toml; lines move."""
        return self.file, self.function, self.old.strip(), self.new.strip()


def bugs(folder):
    """All that can be planted in a folder of sources."""
    found = set()
    for path in sorted([*folder.rglob("*.h"), *folder.rglob("*.c")]):
        if path.name in LEFT_OUT:
            continue
        text = path.read_text()
        code = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
        function = ""
        for number, (line, bare) in enumerate(zip(text.split("\n"), code.split("\n")), 1):
            if begun := FUNCTION.match(bare):
                function = begun[1]
            for start, end, new in changes(bare.rstrip()):
                changed = line[:start] + new + line[end:]
                found.add(Bug(str(path.relative_to(folder)), number, start, line, changed, function))
    return sorted(found)


def changes(line):
    """(from, to, instead) in a line without comments."""
    if NO_CODE.match(line) or DECLARATION.fullmatch(line) or line.endswith("\\"):
        return
    for pattern, new in OPERATORS:
        for match in pattern.finditer(line):
            yield match.start(), match.end(), new
    for pattern in (NOT, MINUS):
        for match in pattern.finditer(line):
            if not RETURN.search(line):
                yield match.start(), match.end(), ""
    if (match := CONDITION.search(line)) and balanced(match["condition"]):
        yield match.start("condition"), match.end("condition"), f"!({match['condition']})"
    if match := GO_ON.search(line):
        yield match.start(1), match.end(1), "DROP(NOT_CONFIGURED)"
    if match := RETURN.search(line):
        yield match.start(1), match.end(1), "-1" if match[1] == "0" else "0"
        return
    unseen = {match.start(match.lastindex) for match in UNSEEN.finditer(line)}
    for match in NUMBER.finditer(line):
        is_bound = BOUND[0].search(line[:match.start()]) and BOUND[1].match(line[match.end():])
        if match.start() in unseen or is_bound:
            continue
        number = match[1]
        more = hex(int(number, 16) + 1) if number.startswith("0x") else str(int(number) + 1)
        yield match.start(), match.end(), more + (match[2] or "")


def balanced(text):
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def plant(folder, bug):
    """Writes it into a copy of the sources; gives back the text that was there."""
    path = folder / bug.file
    text = path.read_text()
    lines = text.split("\n")
    assert lines[bug.line - 1] == bug.old, f"{path} is not the copy of what was read"
    lines[bug.line - 1] = bug.new
    path.write_text("\n".join(lines))
    return text
