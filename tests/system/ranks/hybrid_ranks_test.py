"""A model with recurrent layers, split over several ranks or stages, answers as one rank does, and its stored states can
be restored by any other layout.

    scripts/python -m pytest tests/system/ranks/hybrid_ranks_test.py
"""

import pytest
import tiny_hybrid
from ranks_test import (  # noqa: F401: run with this file's model
    test_answers_and_caches_match_one_rank,
    test_concurrent_turns_and_a_kill,
)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny_hybrid.make(tmp_path_factory.mktemp("hybrid") / "hybrid.gguf")
