"""Take the syntax of a command apart into Redis's form of arguments.

"SET key value [NX | XX] [EX seconds | KEEPTTL]" gives the arguments key, value, one of NX and XX, and
one of EX with seconds and KEEPTTL, the last two optional. Used by gen_commands.py.
"""

import re
from dataclasses import dataclass, field, replace

KEYS = {"key", "newkey", "destkey", "source", "destination", "key1", "key2"}
INTEGERS = {
    *("seconds", "milliseconds", "count", "index", "index1", "index2", "increment", "offset"),
    *("start", "end", "bit", "length", "timeout", "ttl", "numkeys", "numreplicas", "cursor"),
    *("frequency", "min-match-len", "client-id", "protover", "db", "destination-db", "version"),
}
TIMES = {"unix-time-seconds", "unix-time-milliseconds"}
# Commands whose keys behind the first have a key specification of their own.
TWO_SPECS = {"bitop", "copy", "rename", "renamenx"}


@dataclass
class Argument:
    """One argument, or a group of some."""

    name: str
    kind: str
    token: str = ""
    optional: bool = False
    multiple: bool = False
    multiple_token: bool = False
    children: list["Argument"] = field(default_factory=list)

    def same(self, other: "Argument") -> bool:
        return (self.name, self.kind, self.token) == (other.name, other.kind, other.token)


def kind_of(name: str) -> str:
    if name in KEYS:
        return "key"
    if name in TIMES:
        return "unix-time"
    if name == "pattern":
        return "pattern"
    return "integer" if name in INTEGERS else "string"


def is_word(token: str) -> bool:
    """A word that is given as it stands."""
    return re.fullmatch(r"[A-Z][A-Z0-9-]*", token) is not None


def same_all(some: list[Argument], others: list[Argument]) -> bool:
    return len(some) == len(others) > 0 and all(a.same(b) for a, b in zip(some, others))


def group(arguments: list[Argument], kind: str) -> Argument:
    if len(arguments) == 1:
        return arguments[0]
    return Argument(arguments[0].name, kind, children=arguments)


class Parser:
    """Reads tokens from left to right; brackets nest a few levels."""

    def __init__(self, text: str) -> None:
        self.tokens = re.findall(r"\.\.\.|[\[\]|]|[^\s\[\]|]+", text)
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def alternatives(self) -> tuple[list[Argument], bool]:
        """Up to a closing bracket or the end; whether it ends with "..."."""
        all_of_them = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            all_of_them.append(self.sequence())
        repeated = self.peek() == "..."
        self.at += repeated
        if len(all_of_them) == 1:
            return all_of_them[0], repeated
        return [group([group(one, "block") for one in all_of_them], "oneof")], repeated

    def sequence(self) -> list[Argument]:
        found: list[Argument] = []
        while self.peek() not in ("", "|", "]", "..."):
            if self.peek() == "[":
                self.bracket(found)
            elif is_word(self.peek()):
                found.append(self.word())
            else:
                found.append(self.leaf())
        return found

    def leaf(self) -> Argument:
        name = self.peek()
        self.at += 1
        return Argument(name, kind_of(name))

    def word(self) -> Argument:
        """A word alone, one of several, or one that names what follows it."""
        choices = [self.peek()]
        self.at += 1
        while self.peek() == "|" and is_word(self.peek(1)):
            choices.append(self.peek(1))
            self.at += 2
        if len(choices) > 1:
            tokens = [Argument(word.lower(), "pure-token", word) for word in choices]
            return Argument(choices[0].lower(), "oneof", children=tokens)
        token = choices[0]
        following: list[Argument] = []
        while self.peek() and not is_word(self.peek()) and self.peek() not in "[]|...":
            following.append(self.leaf())
        if not following and is_word(self.peek()) and self.peek(1) == "|":
            following.append(self.word())
        if not following:
            return Argument(token.lower(), "pure-token", token)
        return replace(group(following, "block"), token=token)

    def bracket(self, found: list[Argument]) -> None:
        self.at += 1
        inner, repeated = self.alternatives()
        self.at += 1  # the closing one
        count = len(inner)
        before = found[-count:] if len(found) >= count else []
        if repeated and same_all(before, inner):
            del found[-count:]
            whole = group(before, "block")
            found.append(replace(whole, multiple=True, multiple_token=whole.token != ""))
        elif repeated and found and found[-1].token and self.is_its_value(found[-1], inner):
            found[-1].multiple = True
        else:
            whole = group(inner, "block")
            multiple = repeated or whole.multiple
            found.append(replace(whole, optional=True, multiple=multiple))

    @staticmethod
    def is_its_value(named: Argument, inner: list[Argument]) -> bool:
        """Whether they are what follows the word of an argument: it is said once."""
        values = named.children if named.children else [replace(named, token="")]
        return same_all(values, inner)


def parse(name: str, syntax: str) -> list[Argument]:
    """The arguments behind the command's own words."""
    words = name.count("|") + 1
    text = " ".join(syntax.split(" ")[words:])
    arguments, _ = Parser(text).alternatives()
    return arguments


def flatten(name: str, arguments: list[Argument]) -> list[tuple[Argument, int]]:
    """All of them, each before its children, with the index of its key specification or -1."""
    out: list[tuple[Argument, int]] = []
    waiting = list(reversed(arguments))
    seen = 0
    while waiting:
        argument = waiting.pop()
        spec = -1
        if argument.kind == "key":
            spec = 1 if seen > 0 and name in TWO_SPECS else 0
            seen += 1
        out.append((argument, spec))
        waiting += reversed(argument.children)
    return out
