"""Memory and queue over the soak's time, in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def draw(samples: Sequence[dict[str, float]], file: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    minutes = [each["at_s"] / 60 for each in samples]
    left.plot(minutes, [each["memory_mib"] for each in samples], color="#d9542b")
    left.set_title("Memory of the operator")
    left.set_ylabel("MiB resident")
    left.set_ylim(bottom=0)
    right.plot(minutes, [each["waiting"] for each in samples], color="#2f5d9b")
    right.set_title("Pods that fit and are not bound yet")
    right.set_ylim(bottom=0)
    for each in (left, right):
        each.set_xlabel("minutes of pods coming and going; before 0: warm-up")
        each.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "alnair", "font.family": "sans-serif"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
