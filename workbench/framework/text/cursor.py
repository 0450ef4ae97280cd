"""A walk over the tokens of a text, one token ahead, with errors that name line and column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from workbench.errors import EnforceNotMet, InvalidArgument
from workbench.framework.text.lexicon import SyntaxFault, Token, tokens

T = TypeVar("T")


class Cursor:
    """Where a reader is in its text.

    Attributes:
        token, following: the current token and the one after it; the last one is of kind `eof`.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.stream = tokens(text)
        self.token = self.read()
        self.following = self.token if self.token.kind == "eof" else self.read()

    def read(self) -> Token:
        try:
            return next(self.stream)
        except SyntaxFault as fault:
            self.refuse(fault)

    def next(self) -> Token:
        """The current token; the one after it becomes the current one."""
        token = self.token
        self.token = self.following
        if self.token.kind != "eof":
            self.following = self.read()
        return token

    def fail(self, expected: str, token: Token | None = None) -> NoReturn:
        """Raise InvalidArgument: `expected` was, but `token` (default: the current one) was found."""
        token = token or self.token
        got = {"end": "the end of the line", "eof": "the end of the text"}.get(token.kind, repr(token.text))
        self.refuse(SyntaxFault(token.start, expected, got))

    def refuse(self, fault: SyntaxFault) -> NoReturn:
        raise InvalidArgument(f"{self.position(fault.start)}: {fault}") from None

    def position(self, start: int) -> str:
        """Line and column, from 1, of a character."""
        line = self.text.count("\n", 0, start) + 1
        return f"line {line}, column {start - self.text.rfind(chr(10), 0, start)}"

    @contextmanager
    def located(self, token: Token) -> Iterator[None]:
        """Errors about what was read name the place of `token`."""
        try:
            yield
        except SyntaxFault as fault:
            self.refuse(fault)
        except EnforceNotMet as error:
            raise type(error)(f"{self.position(token.start)}: {error}") from error

    # Small pieces

    def is_mark(self, mark: str) -> bool:
        return self.token.text == mark and self.token.kind == "mark"

    def is_word(self, word: str, then: str = "") -> bool:
        is_here = self.token.text == word and self.token.kind == "word"
        return is_here and (not then or self.following.kind == then)

    def mark(self, mark: str) -> None:
        """Go over a mark that has to be there."""
        if not self.is_mark(mark):
            self.fail(repr(mark))
        self.next()

    def accept(self, mark: str) -> bool:
        """Go over a mark if it is there."""
        is_here = self.is_mark(mark)
        if is_here:
            self.next()
        return is_here

    def keyword(self, word: str) -> Token:
        if not self.is_word(word):
            self.fail(repr(word))
        return self.next()

    def end(self) -> None:
        """Go to the next line with anything on it."""
        if self.token.kind == "eof":
            return
        if self.token.kind != "end":
            self.fail("the end of the line")
        while self.token.kind == "end":
            self.next()

    def word(self, what: str) -> str:
        if self.token.kind not in ("word", "string"):
            self.fail(what)
        return self.next().value

    def name(self) -> str:
        if self.token.kind != "name":
            self.fail("a variable (%name)")
        return self.next().value

    def integer(self, what: str = "an integer") -> int:
        if self.token.kind != "number" or not isinstance(self.token.value, int):
            self.fail(what)
        return self.next().value

    def listed(self, opening: str, closing: str, item: Callable[[], T]) -> list[T]:
        """Items between two marks, separated by commas."""
        self.mark(opening)
        items: list[T] = []
        while not self.is_mark(closing):
            items.append(item())
            if not self.accept(","):
                break
        if not self.is_mark(closing):
            self.fail(f"',' or {closing!r}")
        self.next()
        return items

    def table(self, opening: str, closing: str, item: Callable[[], tuple[str, T]]) -> dict[str, T]:
        """Pairs of a key and what it stands for; no key occurs twice."""
        start = self.token
        pairs = self.listed(opening, closing, item)
        entries = dict(pairs)
        if len(entries) != len(pairs):
            self.fail("every key once", start)
        return entries
