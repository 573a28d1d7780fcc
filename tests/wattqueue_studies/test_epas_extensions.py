"""What the study of paper 3 adds beyond it: the comparison of controls on a small case, and files that are missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install 'wattqueue[ml]'")

from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.workload.lightesp import APPS
from wattqueue_studies.epas.extensions import POLICIES, Extensions, measured
from wattqueue_studies.epas.trial import paper_machine


@pytest.mark.parametrize("policy", POLICIES)
def test_every_control_holds_the_cap(policy: str) -> None:
    """Three jobs of which two fit at once; the third waits for a promised start."""
    apps = tuple(a.name for a in APPS)
    jobs = Jobs.build(
        [0, 0, 0], [200, 200, 260], [20.0, 30.0, 10.0], walltime_s=[40.0] * 3, app=Labels(np.zeros(3, np.int32), apps)
    )
    found = measured(jobs, paper_machine("bull", 0.3), policy, "predicted")
    assert found["over_s"] == 0.0
    assert found["promises"] == 1.0
    assert found["makespan_s"] >= 30.0  # of the second job at the highest frequency


def test_ramps_need_nodes(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Extensions(ramps=tmp_path / "ramps.csv").demands()
    assert caught.value.where == "--ramps"
    assert Extensions().demands() == []
