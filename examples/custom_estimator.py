"""A power predictor of one's own, asked as jobs arrive: the highest that a user's last five jobs drew."""

import numpy as np

from wattqueue.checks.estimator import check_estimator
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Asked, Finished, Floats, Ints, Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate


class HighestOfFive:
    """A user without history is predicted the machine's maximum."""

    asked: Asked = "at_submit"
    machine_figures = False

    def predict(self, jobs: Jobs, machine: Machine) -> Prediction:
        """The state before any job: forget everything, and predict the maximum of each partition's unit."""
        self.user = jobs.user.codes
        self.last_five: dict[int, list[float]] = {}
        self.most_w = np.array([machine.partitions[p].max_w or 0.0 for p in machine.option_partition])
        shape = (len(jobs), len(self.most_w))
        return Prediction(np.broadcast_to(self.most_w, shape).copy(), np.ones(shape))

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        """Watts of one unit for the jobs that arrive now, by option."""
        highest = np.array([max(self.last_five.get(int(user), [np.inf])) for user in self.user[rows]])
        watts: Floats = np.minimum(highest[:, np.newaxis], self.most_w)
        return watts

    def learn(self, finished: Finished) -> None:
        """Jobs that have ended since, as they were measured."""
        for row, watts in zip(finished.rows, finished.max_power_w, strict=True):
            if self.user[row] >= 0 and watts > 0:
                user = int(self.user[row])
                self.last_five[user] = [*self.last_five.get(user, []), float(watts)][-5:]


def main() -> None:
    rng = np.random.default_rng(11)
    n = 600
    user = rng.integers(0, 12, n)
    runtime_s = rng.lognormal(7.0, 1.0, n).round()
    jobs = Jobs.build(
        submit_s=np.cumsum(rng.exponential(160.0, n)).round(),
        nodes=rng.choice([1, 1, 2, 4, 8], n),
        runtime_s=runtime_s,
        walltime_s=runtime_s * 2.0,
        user=[f"user{k}" for k in user],
        mean_power_w=(140.0 + 15.0 * user + rng.uniform(-10.0, 10.0, n)).round(),
        origin="generated",
    )
    machine = Machine("small", (Partition("batch", nodes=32, idle_w=90.0, max_w=350.0),))
    cap = Cap.constant(0.6 * (machine.scope_max_w() or 0.0))
    check_estimator(HighestOfFive)
    print("every check passed: pure, deterministic, picklable, no look into the future\n")
    print("generated jobs under a 60% cap    mean wait   energy above the cap")
    for name, estimator in (("naive", "naive"), ("highest of five", HighestOfFive()), ("oracle-max", "oracle-max")):
        run = simulate(jobs, machine, load_policy("easy", estimator=estimator), cap=cap)
        wait_min = float(np.mean(run.schedule.start_s - jobs.submit_s)) / 60
        over_w = np.maximum(run.power.machine_w[:-1] - cap.cap_w[0], 0.0)
        over_kwh = float(over_w @ np.diff(run.power.time_s)) / 3.6e6
        print(f"{name:<30} {wait_min:8.1f} min   {over_kwh:10.3f} kWh")


if __name__ == "__main__":
    main()
