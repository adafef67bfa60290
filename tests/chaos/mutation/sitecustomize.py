"""Python imports this by itself when its folder is on PYTHONPATH: the operator starts with one bug in it.

Only `chaos.mutants` puts it there. Nothing of the product knows of it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if name := os.environ.get("ALNAIR_MUTANT"):
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from chaos.mutants import MUTANTS

    MUTANTS[name].put_in()
    del sys.path[0]
