"""Puts the package and this folder on the path. The unit tests need neither vLLM nor a server."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
for folder in (HERE, os.path.join(TOP, "python")):
    if folder not in sys.path:
        sys.path.insert(0, folder)
