"""`python -m tests.simulation --seeds 10000`: that many runs; each seed that fails is told, with the command that replays it."""

import argparse
import logging
import sys
import time
from contextlib import nullcontext

from tests.simulation import mutants, peek_mutants, world
from tests.simulation.gate import mutants as gate_mutants
from tests.simulation.gate import world as gate_world

SIMULATIONS = {
    "cursor": (world.simulate, world.replay, mutants),
    "queues": (world.simulate_many, world.replay_many, peek_mutants),
    "gate": (gate_world.simulate, gate_world.replay, gate_mutants),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (%(default)s)")
    parser.add_argument("--of", choices=SIMULATIONS, default="cursor", help="what is simulated (%(default)s)")
    parser.add_argument("--mutant", help="break one rule, and count the seeds that find it")
    options = parser.parse_args()
    simulate, replay, broken_rules = SIMULATIONS[options.of]
    if options.mutant not in (None, *broken_rules.MUTANTS):
        parser.error(f"--mutant: expected one of {', '.join(sorted(broken_rules.MUTANTS))}")
    logging.disable(logging.CRITICAL)
    began, failed, sums = time.monotonic(), 0, []
    with broken_rules.living(options.mutant) if options.mutant else nullcontext():
        for seed in range(options.first, options.first + options.seeds):
            try:
                sums.append(simulate(seed))
            except Exception as error:  # noqa: BLE001 - whatever a seed meets is to be told with the seed
                failed += 1
                broken = f" --mutant {options.mutant}" if options.mutant else ""
                print(f"seed {seed}: {error!r}\n    {replay(seed)}{broken}")
    statements, jobs = sum(one.statements for one in sums), sum(one.jobs for one in sums)
    took = time.monotonic() - began
    print(f"{options.seeds} seeds, {failed} failed; {jobs} jobs, {statements} statements in the others; {took:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
