#!/usr/bin/env python3
"""Reads the records of a short search by TensorBoard's and MLflow's own readers."""

import os
import pathlib
import tempfile
import unittest

os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}

from mlflow import MlflowClient
from services import ROOT, command, records
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

FIELDS = ["correct_rate", "build_rate", "mean_gflops", "best_gflops"]
# Its dgemm multiplies small matrices, so that a search takes seconds.
PROBLEMS = ROOT / "crates" / "flopsmith" / "tests" / "problems"


class Readers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.folder = pathlib.Path(place.name)
        runs = cls.folder / "runs"
        settings = ["max_steps=3", "tasks=2", "group_size=4", "evaluate.finalists=0", "evaluate.quarantine=false"]
        task = ["--problem", "dgemm", "--format", "json", "--budget", "10m", "--runs", runs, *(f"--set={one}" for one in settings)]
        command("search", *task, FLOPSMITH_PROBLEMS=str(PROBLEMS))
        [cls.run_folder] = [file.parent for file in runs.glob("*/run.json")]
        cls.steps = records(cls.run_folder / "metrics.jsonl")

    def test_tensorboard_shows_every_step(self):
        self.assertGreaterEqual(len(self.steps), 3)
        curves = EventAccumulator(str(self.run_folder / "tensorboard"))
        curves.Reload()
        for field in FIELDS:
            with self.subTest(field):
                points = curves.Scalars(f"samples/{field}")
                self.assertEqual([point.step for point in points], [step["step"] for step in self.steps])
                for point, step in zip(points, self.steps):
                    # Event files have single precision.
                    self.assertAlmostEqual(point.value, step[field], delta=1e-6 * step[field])
                    self.assertAlmostEqual(point.wall_time, step["ended_unix_ms"] / 1000, places=2)
        self.assertLessEqual({"best/gflops", "best/ratio", "archive/cells", "seconds/compile"}, set(curves.Tags()["scalars"]))

    def test_mlflow_shows_every_step(self):
        root = self.folder / "mlruns"
        command("runs", "export", "mlflow", self.run_folder, "--output", root)
        client = MlflowClient(tracking_uri=root.as_uri())
        experiment = client.get_experiment_by_name("flopsmith")
        [run] = client.search_runs([experiment.experiment_id])
        self.assertEqual((run.info.run_name, run.info.status), (self.run_folder.name, "FINISHED"))
        self.assertEqual(run.data.params["problem"], "dgemm")
        self.assertNotIn("nats", run.data.params)
        for field in FIELDS:
            with self.subTest(field):
                points = client.get_metric_history(run.info.run_id, f"samples/{field}")
                found = [(point.step, point.timestamp, point.value) for point in points]
                self.assertEqual(found, [(step["step"], step["ended_unix_ms"], step[field]) for step in self.steps])
        self.assertEqual([file.path for file in client.list_artifacts(run.info.run_id)], ["report.html"])


if __name__ == "__main__":
    unittest.main()
