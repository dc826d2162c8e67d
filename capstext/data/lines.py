"""Files, gzipped files and stdin as lines of clean text; faults are named by file and line."""

import codecs
import gzip
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from capstext.errors import CapstextError

ErrorPolicy = Literal["strict", "replace"]

MAX_CHARACTERS = 1_000_000
FAULTS_KEPT = 20
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass
class Tally:
    """What happened to the rows on their way in; the caller shows it at the end."""

    rows: int = 0
    empty: int = 0
    replaced: int = 0
    cut: int = 0
    skipped: int = 0
    ignored: int = 0
    faults: list[str] = field(default_factory=list)
    text_column: str | None = None

    def notes(self) -> tuple[str, ...]:
        """The counts that are not zero, in words."""
        counts = {
            "empty text": self.empty,
            "character replaced": self.replaced,
            "text cut at the length bound": self.cut,
            "bad row skipped": self.skipped,
            "file ignored (not text)": self.ignored,
        }
        return tuple(f"{count:,} × {what}" for what, count in counts.items() if count)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where texts come from, and what to do about their faults."""

    file: str
    errors: ErrorPolicy = "strict"
    skip_bad: bool = False
    max_characters: int = MAX_CHARACTERS
    tally: Tally = field(default_factory=Tally)

    @property
    def max_bytes(self) -> int:
        return 4 * self.max_characters + 8  # UTF-8 takes at most four bytes a character; room for a BOM

    def bad(self, line: int, fault: str) -> None:
        message = f"{self.file}:{line}: {fault}"
        if not self.skip_bad:
            raise CapstextError(f"{message}; mend it or pass --skip-bad")
        self.tally.skipped += 1
        if len(self.tally.faults) < FAULTS_KEPT:
            self.tally.faults.append(message)

    def decode(self, data: bytes, line: int, *, whole: bool = True) -> str:
        """Text of bytes that begin on `line`; if they are not whole, half a character at the end is lost."""
        try:
            text = data.decode() if whole else codecs.getincrementaldecoder("utf-8")().decode(data)
        except UnicodeDecodeError as fault:
            text = self._decode_invalid(data, line, fault.start)
        return cast(str, self.clean(text))

    def _decode_invalid(self, data: bytes, line: int, at: int) -> str:
        try:
            return data.decode(errors="surrogatepass")
        except UnicodeDecodeError:
            if self.errors == "strict":
                line += data.count(b"\n", 0, at)
                before = data[data.rfind(b"\n", 0, at) + 1 : at]
                column = len(before.decode(errors="replace")) + 1
                raise CapstextError(
                    f"{self.file}:{line}: not UTF-8 (byte 0x{data[at]:02x} at column {column}); "
                    "convert the file or pass --errors replace"
                ) from None
        text = data.decode(errors="replace")
        self.tally.replaced += text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
        return text

    def clean(self, value: Any) -> Any:
        """Lone surrogates and NUL become U+FFFD, in strings and in lists of them."""
        if isinstance(value, str):
            value, count = _UNSTORABLE.subn("\ufffd", value)
            self.tally.replaced += count
        elif isinstance(value, list):
            value = [self.clean(item) for item in value]
        return value

    def bound(self, text: str) -> str:
        if len(text) <= self.max_characters:
            return text
        self.tally.cut += 1
        return text[: self.max_characters]


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """The bytes of a file, gzipped or not, or of stdin (`-`); what goes wrong is told in one line."""
    file = "stdin" if str(path) == "-" else str(path)
    try:
        if file == "stdin":
            yield sys.stdin.buffer
        else:
            with gzip.open(path) if file.endswith(".gz") else open(path, "rb") as stream:
                yield cast(BinaryIO, stream)
    except FileNotFoundError:
        raise CapstextError(f"no such file: {file}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise CapstextError(f"{file}: damaged gzip file ({fault})") from None
    except OSError as fault:
        raise CapstextError(f"cannot read {file}: {fault.strerror or fault}") from None


def byte_lines(stream: BinaryIO, limit: int) -> Iterator[tuple[int, bytes, bool]]:
    """Lines without their ends; what passes the limit is read past, and the line is marked as not whole."""
    line = 0
    while data := stream.readline(limit):
        line += 1
        whole = True
        if len(data) == limit and not data.endswith(b"\n"):
            rest = stream.readline(limit)
            whole = rest in (b"", b"\n", b"\r\n")
            while rest and not rest.endswith(b"\n"):
                rest = stream.readline(limit)
        if line == 1 and not (data := data.removeprefix(codecs.BOM_UTF8)):
            return
        yield line, data.removesuffix(b"\n").removesuffix(b"\r"), whole
