"""The version, alone in its file so that nothing heavy is imported to read it."""

VERSION = "0.1.0"
