"""The verbs of the command line that have no room of their own: what each takes.

jax is imported inside the verbs, so that `--help` is fast.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, Positional, arg, subcommand

from snm.cli.data_fetch_command import Fetch, List
from snm.cli.data_import_command import Import
from snm.config.settings import Config
from snm.distributed.launch import Meeting, joined

__all__ = ["Data", "Evaluate", "Plan", "Predict", "Stats", "Synth", "Train", "base"]


@dataclasses.dataclass
class Stats:
    """Print what a data set holds: the columns of the paper's Table 1, and more.

    For example:

      snm data stats path/to/eurlex
    """

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Folder of the data set, or `synthetic`."""
    json: bool = False
    """Print one JSON object."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.cli.verbs import print_stats

        print_stats(self.data, as_json=self.json)


@dataclasses.dataclass
class Synth:
    """Write a data set made up to look like real ones, of any size.

    For example:

      snm data synth /data/made-up --points 100000 --features 50000 --labels 20000
    """

    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """Folder to write train.txt and test.txt to; must not exist."""
    points: int = 8000
    """Training points."""
    test_points: int = 2000
    """Test points."""
    features: int = 8000
    """Features."""
    labels: int = 4000
    """Labels."""
    labels_per_point: float = 9.3
    """Mean labels a point."""
    nonzeros_per_point: float = 18.9
    """Mean words a point."""
    seed: int = 0
    """The same seed gives the same data."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.cli.verbs import write_synthetic

        write_synthetic(
            self.out,
            points=self.points,
            test_points=self.test_points,
            features=self.features,
            labels=self.labels,
            labels_per_point=self.labels_per_point,
            nonzeros_per_point=self.nonzeros_per_point,
            seed=self.seed,
        )


@dataclasses.dataclass
class Data:
    """Describe data, fetch it by name, bring it in, or make it up."""

    command: OmitSubcommandPrefixes[
        Annotated[Stats, subcommand("stats")]
        | Annotated[Synth, subcommand("synth")]
        | Annotated[Import, subcommand("import")]
        | Annotated[List, subcommand("list")]
        | Annotated[Fetch, subcommand("fetch")]
    ]

    def __call__(self) -> None:
        """Runs it."""
        self.command()


# What the flags of `train` and `plan` start from: the preset and the TOML file named among them.
base: list[Config] = [Config()]


@dataclasses.dataclass
class Train:
    """Train a model, evaluate it on the test points, and keep both in a folder.

    The same command again goes on where the last one stopped. SIGTERM or Ctrl-C finishes the step,
    takes a checkpoint and exits with status 75; a second one stops at once. Settings come from the
    preset, then from the TOML file, then from the flags.

    For example:

      snm train path/to/eurlex --run-dir runs/eurlex
      snm train synthetic --run-dir runs/ns --preset paper --mined all
      snm train path/to/eurlex --run-dir runs/stop --validation-fraction 0.1 --patience 3
      snm train path/to/eurlex --run-dir runs/eurlex --log-to wandb mlflow
      srun snm train path/to/amazon3m --run-dir runs/big --mesh data=2,label=8
    """

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Folder of the data set, or `synthetic`."""
    run_dir: Path
    """Folder of the run; one with other settings or data is refused."""
    config: Path | None = None
    """TOML file with settings, such as the config.toml of a run."""
    warm_start: Path | None = None
    """Run whose parameters this one starts from."""
    dry_run: bool = False
    """Print the resolved settings and sizes, and train nothing."""
    profile: bool = False
    """Write a profiler trace of a few steps to the run's folder."""
    device_memory: str | None = None
    """Refuse a run that needs more, such as 80GiB; by default what the device reports."""
    log_to: tuple[Literal["wandb", "mlflow"], ...] = ()
    """Services beside log.jsonl and TensorBoard's files, each an extra of its name."""
    coordinator: str | None = None
    """HOST:PORT of process 0, where the processes of one run meet; not needed under SLURM, Open MPI
    and GKE, which tell."""
    num_processes: int | None = None
    """How many they are; 1 trains alone, whatever a launcher says."""
    process_id: int | None = None
    """Which of them this is, from 0."""
    peer_timeout: int = 30
    """Seconds without a word from another process after which all end."""
    settings: OmitArgPrefixes[Config] = dataclasses.field(default_factory=lambda: base[0])
    """Settings of the run."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.cli.verbs import run_training
        from snm.system.cache_folder import keep_programs

        keep_programs()
        meeting = Meeting(self.coordinator, self.num_processes, self.process_id, self.peer_timeout)
        with joined(meeting):
            run_training(
                self.data,
                self.settings,
                self.run_dir,
                warm_start=self.warm_start,
                dry_run=self.dry_run,
                profile=self.profile,
                device_memory=self.device_memory,
                log_to=self.log_to,
            )


@dataclasses.dataclass
class Plan:
    """Predict what a run will need: bytes by part and stage, and the time of an epoch.

    Takes the options of `snm train`. The programs are compiled, and a few steps are timed where
    the run fits this machine; nothing is written.

    For example:

      snm plan path/to/eurlex
      snm plan path/to/amazon3m --preset paper --device-memory 80GiB
    """

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Folder of the data set, or `synthetic`."""
    device_memory: str | None = None
    """What there is, such as 80GiB; by default what the device reports."""
    json: bool = False
    """Print one JSON object, in bytes and seconds."""
    config: Path | None = None
    """TOML file with settings, such as the config.toml of a run."""
    settings: OmitArgPrefixes[Config] = dataclasses.field(default_factory=lambda: base[0])
    """Settings of the run."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.cli.plan import run_plan
        from snm.system.cache_folder import keep_programs

        keep_programs()
        run_plan(self.data, self.settings, self.device_memory, as_json=self.json)


@dataclasses.dataclass
class Evaluate:
    """Evaluate a trained model on test points, exactly, over all labels.

    For example:

      snm evaluate runs/eurlex
      snm evaluate runs/eurlex --data path/to/another-split --json
      snm evaluate runs/eurlex --auc
      snm evaluate runs/eurlex --index out/index
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a run."""
    data: str | None = None
    """Data set with test points; by default the one of the run."""
    json: bool = False
    """Print one JSON object."""
    index: Path | None = None
    """Index of `snm export`, evaluated beside the exact search over all labels."""
    auc: bool = False
    """Also the AUC, relevant labels against all others; it takes three times as long."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.cli.verbs import run_evaluation
        from snm.system.cache_folder import keep_programs

        keep_programs()
        run_evaluation(self.run, self.data, as_json=self.json, index=self.index, auc=self.auc)


@dataclasses.dataclass
class Predict:
    """Write the best labels of each point of a file, streaming.

    For example:

      snm predict runs/eurlex new.txt --k 5 --output answers.jsonl
      snm predict runs/eurlex X.tst.npz --output answers.txt --format sparse
      snm predict runs/articles new.jsonl --output answers.jsonl
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a run."""
    input: Annotated[Positional[Path], arg(metavar="INPUT")]
    """Features: text with or without labels (also .gz), SciPy .npz, or dense .npy."""
    output: Path
    """File to write."""
    k: int = 5
    """Labels a point."""
    format: Literal["jsonl", "sparse"] = "jsonl"
    """JSON lines with names and scores, or the repository's `label:score` rows."""
    texts: bool = False
    """INPUT is a text a line (JSON lines with "text" need no flag); of a run on `data import`."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.cli.verbs import run_prediction
        from snm.system.cache_folder import keep_programs

        keep_programs()
        run_prediction(
            self.run, self.input, self.output, k=self.k, form=self.format, texts=self.texts
        )
