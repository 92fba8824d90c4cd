#!/usr/bin/env python3
"""Reads the exported tasks by the package `harbor`."""

import pathlib
import tempfile
import unittest

from harbor.models.task.task import Task
from services import command


class Harbor(unittest.TestCase):
    def test_every_exported_task_is_read(self):
        with tempfile.TemporaryDirectory() as place:
            tasks = pathlib.Path(place) / "tasks"
            command("problem", "export", "harbor", tasks)
            folders = sorted(tasks.iterdir())
            self.assertGreater(len(folders), 80)
            for folder in folders:
                with self.subTest(folder.name):
                    self.check(Task(folder), folder)

    def check(self, task, folder):
        self.assertEqual(task.name, f"flopsmith/{folder.name}")
        config = task.config
        # The package ignores what it does not know, so these show that it knows the settings.
        self.assertEqual(config.verifier.environment_mode, "separate")
        self.assertGreater(config.verifier.timeout_sec, 0)
        for environment in (config.environment, config.verifier.environment):
            self.assertEqual(environment.cpus, 2)
            self.assertGreaterEqual(environment.memory_mb, 1024)
        [artifact] = config.artifacts
        program = artifact if isinstance(artifact, str) else artifact.source
        self.assertIn(f"`{program}`", task.instruction)
        self.assertTrue(task.paths.environment_dir.is_dir())


if __name__ == "__main__":
    unittest.main()
