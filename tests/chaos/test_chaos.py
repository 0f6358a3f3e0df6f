"""The same as scripts/chaos, as a test: BERTH_CHAOS_KILLS kills, BERTH_CHAOS_SEED to repeat one."""

import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "lifecycle")]

# pylint: disable=wrong-import-position
import chaos  # noqa: E402
from ground import main  # noqa: E402

KILLS = int(os.environ.get("BERTH_CHAOS_KILLS", "100"))
SEED = int(os.environ.get("BERTH_CHAOS_SEED", str(random.randrange(10**6))))


def test_chaos(g):
    """[43] berthd, keeper, init, runtime killed at random: no fact is lost, no code invented, nothing orphaned."""
    print(f"# seed {SEED}", flush=True)
    figures = chaos.run(g, KILLS, SEED, lambda text: print("#", text, flush=True))
    print(f"# {figures['seconds']} s, {figures['requests']} requests, {figures['events']} events, kills {figures['kills']}")


main([test_chaos])
