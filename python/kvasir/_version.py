"""The package's version; the wheel build refuses to run when it differs from the VERSION file."""

__version__ = "0.1.0"
