"""Write a custom estimator that learns during the run: predict the highest power of the user's last five jobs.

``asked = "at_submit"`` makes the simulator call ``predict_rows`` for the jobs that arrive and ``learn`` for the jobs
that have ended since. ``check_estimator`` runs the public test suite for estimators on the class.
"""

import numpy as np

import wattqueue as wq
from wattqueue.parts import Asked, Finished, Floats, Ints, KnownJobs, Prediction, check_estimator


class HighestOfFive:
    """Predict the highest power of the user's last five jobs, the machine's maximum for a user without history."""

    asked: Asked = "at_submit"
    machine_figures = False

    def predict(self, jobs: KnownJobs, machine: wq.Machine) -> Prediction:
        """Reset to the state before any job, and predict the maximum of each partition's unit."""
        self.user = jobs.user.codes
        self.last_five: dict[int, list[float]] = {}
        self.most_w = np.array([machine.partitions[p].max_w or 0.0 for p in machine.option_partition])
        shape = (len(jobs), len(self.most_w))
        return Prediction(np.broadcast_to(self.most_w, shape).copy(), np.ones(shape))

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        """Return the watts of one unit of the jobs that arrive now, by option. Shape (rows, options)."""
        highest = np.array([max(self.last_five.get(int(user), [np.inf])) for user in self.user[rows]])
        watts: Floats = np.minimum(highest[:, np.newaxis], self.most_w)
        return watts

    def learn(self, finished: Finished) -> None:
        """Record the measured power of the jobs that have ended since the last call."""
        for row, watts in zip(finished.rows, finished.max_power_w, strict=True):
            if self.user[row] >= 0 and watts > 0:
                user = int(self.user[row])
                self.last_five[user] = [*self.last_five.get(user, []), float(watts)][-5:]


def main() -> None:
    rng = np.random.default_rng(11)
    n = 600
    user = rng.integers(0, 12, n)
    runtime_s = rng.lognormal(7.0, 1.0, n).round()
    jobs = wq.Jobs.build(
        submit_s=np.cumsum(rng.exponential(160.0, n)).round(),
        nodes=rng.choice([1, 1, 2, 4, 8], n),
        runtime_s=runtime_s,
        walltime_s=runtime_s * 2.0,
        user=[f"user{k}" for k in user],
        mean_power_w=(140.0 + 15.0 * user + rng.uniform(-10.0, 10.0, n)).round(),
        origin="generated",
    )
    machine = wq.Machine("small", (wq.Partition("batch", nodes=32, idle_w=90.0, max_w=350.0),))
    check_estimator(HighestOfFive)
    print("every check passed: pure, deterministic, picklable, no look into the future\n")
    print("generated jobs under a 60% cap    mean wait   energy above the cap")
    for name, estimator in (("maximum", "maximum"), ("highest of five", HighestOfFive()), ("oracle-max", "oracle-max")):
        found = wq.simulate(jobs, machine, policy="easy", estimator=estimator, cap="60%").metrics
        wait_min, over_kwh = found["wait_s_mean"] / 60, found["cap_over_j"] / 3.6e6
        print(f"{name:<30} {wait_min:8.1f} min   {over_kwh:10.3f} kWh")


if __name__ == "__main__":
    main()
