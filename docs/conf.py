"""How Sphinx builds the documentation: ``make docs``."""

from __future__ import annotations

import gc
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

extensions = ["myst_parser", "sphinx.ext.autodoc", "docstrings", "quick"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "adr/template.md"]
# Two packages may each have a class of one name; a signature that says only the name then has no link.
suppress_warnings = ["ref.python"]

autodoc_mock_imports = ["flux"]  # wattqueue_flux runs inside it
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_type_comments = False  # there are none, and looking for them parses the source of every function
autodoc_default_options = {"members": True, "show-inheritance": False}
python_maximum_signature_line_length = 100
toc_object_entries = False  # thousands of objects, which the theme would copy into the tree of each page

# Furo writes the tree of all pages into each one, which is not ours to check.
html_theme = "basic" if tags.has("check") else "furo"  # type: ignore[name-defined]  # noqa: F821  as above
html_title = "WattQueue"
html_show_sphinx = False

# Documents are large trees that live to the end of a build: looking for garbage among them finds none.
gc.set_threshold(1_000_000, 50, 1_000)

write_pages(Path(__file__).parent / "reference" / "generated")
