"""How Sphinx builds the documentation: ``make docs``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Kernels as plain Python: documenting them must not compile them.
os.environ["NUMBA_DISABLE_JIT"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

from generate import write_pages

import wattqueue

project = "WattQueue"
author = "The WattQueue maintainers"
copyright = "the WattQueue maintainers"  # noqa: A001  the name that Sphinx reads
version = release = wattqueue.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "docstrings"]
if not tags.has("check"):  # type: ignore[name-defined]  # noqa: F821  Sphinx puts tags into this file's names
    extensions.append("sphinx.ext.viewcode")  # half of the time goes into its pages, which are not ours to check
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "adr/template.md"]
# Two packages may each have a class of one name; a signature that says only the name then has no link.
suppress_warnings = ["ref.python"]

autodoc_mock_imports = ["flux"]  # wattqueue_flux runs inside it
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": False}
python_maximum_signature_line_length = 100

# Furo writes the tree of all pages into each one, which takes a fifth of the time and is not ours to check either.
html_theme = "basic" if tags.has("check") else "furo"  # type: ignore[name-defined]  # noqa: F821  as above
html_title = "WattQueue"
html_show_sphinx = False

write_pages(Path(__file__).parent / "reference" / "generated")
