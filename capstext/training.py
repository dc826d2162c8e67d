"""The weights are found: transformers' Trainer, with checkpoints that hold no pickle and resume to the bit.

Ours: batches by length, losses on log-odds, the choice of the best epoch on validation rows, a stop that
loses nothing. Trainer's: the loop, mixed precision, several processes, clipping, schedules.
"""

import json
import math
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import TrainerControl, TrainerState

from capstext import checkpoints, distributed
from capstext.batching import LengthGroupedBatches
from capstext.config import TrainingConfig
from capstext.errors import CapstextError
from capstext.files import write_json
from capstext.losses import Loss
from capstext.models import Model
from capstext.rows import Rows

LABELS = "labels"
# What the caller is told while training runs: (step, steps in all, facts by name).
Report = Callable[[int, int, dict[str, float]], None]


@dataclass(frozen=True)
class Outcome:
    """How a training ended: the scores of its epochs, and the signal or the fault that stopped it."""

    history: list[dict[str, float]]
    best_step: int
    stopped_by: int | None
    diverged: str | None


class Diverged(CapstextError):
    """Loss or gradient is no number any more."""


class Batches(Dataset[Any]):
    """Rows, fetched a batch at a time."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, places: list[int]) -> dict[str, Tensor]:
        return {**self.rows.inputs(places, training=True), LABELS: self.rows.targets(places)}


def fit(
    model: Model,
    *,
    rows: Rows,
    validate: Callable[[Model], dict[str, float]],
    loss: Loss,
    config: TrainingConfig,
    folder: Path,
    resume: bool,
    report: Report,
    warn: Callable[[str], None],
) -> Outcome:
    """Train `model` in place and leave it with the weights of its best epoch.

    `validate` gives the scores of an epoch; its key `score` decides which epoch is best. Where scores are
    no numbers it raises FloatingPointError.
    """
    distributed.join()
    assert config.batch_size is not None, "prepare() decides it"
    arguments = _arguments(config, folder)
    batches = LengthGroupedBatches(rows.lengths, batch_size=config.batch_size, seed=config.seed)
    trainer = _Trainer(
        model=model,
        args=arguments,
        train_dataset=Batches(rows),
        data_collator=lambda batch: batch,
        settings=config,
        loss=loss,
        batches=batches,
        validate=validate,
        folder=folder,
    )
    diverged = None
    with _Signals() as signals:
        trainer.add_callback(_Flow(trainer, signals, report))
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        if config.tensorboard:
            _add_tensorboard(trainer, folder)
        try:
            trainer.run(resume=resume, warn=warn)
        except Diverged as error:
            if not trainer.history:
                raise
            diverged = str(error)
    stopped_by = None if trainer.complete or diverged else signals.received
    if stopped_by is None:
        trainer.load_best()
    return Outcome(trainer.history, trainer.state.best_global_step or 0, stopped_by, diverged)


class _Trainer(Trainer):
    """Trainer with our batches, losses and checkpoints."""

    def __init__(
        self,
        *,
        settings: TrainingConfig,
        loss: Loss,
        batches: LengthGroupedBatches,
        validate: Callable[[Model], dict[str, float]],
        folder: Path,
        **arguments: Any,
    ) -> None:
        self.settings = settings
        self.loss = loss
        self.batches = batches
        self.validate = validate
        self.folder = folder
        super().__init__(**arguments)

    @property
    def steps_in_epoch(self) -> int:
        return math.ceil(len(self.batches) / self.args.world_size)

    @property
    def history(self) -> list[dict[str, float]]:
        """Scores of every finished epoch."""
        return [entry for entry in self.state.log_history if "score" in entry]

    @property
    def out_of_patience(self) -> bool:
        since_best = self.state.global_step - (self.state.best_global_step or 0)
        return since_best >= self.settings.patience * self.steps_in_epoch

    @property
    def complete(self) -> bool:
        return self.state.global_step >= self.settings.epochs * self.steps_in_epoch or self.out_of_patience

    def run(self, *, resume: bool, warn: Callable[[str], None]) -> None:
        """Train, from the newest good checkpoint if asked to."""
        checkpoint, complaints = checkpoints.newest_good(self.folder) if resume else (None, [])
        for complaint in complaints:
            warn(f"{complaint}; going back to {checkpoint.name if checkpoint else 'the start'}")
        if checkpoint is None:
            self.train()
            return
        self.state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        if not self.complete:
            self.train(resume_from_checkpoint=str(checkpoint))

    def load_best(self) -> None:
        """Put the weights of the best epoch into the model."""
        best = checkpoints.folder_of(self.folder, self.state.best_global_step or 0)
        self._load_from_checkpoint(str(best))

    def get_train_dataloader(self) -> DataLoader[Any]:
        loader = DataLoader(
            self.train_dataset,
            batch_sampler=self.batches,
            collate_fn=self.data_collator,
            pin_memory=self.args.device.type == "cuda",
        )
        return self.accelerator.prepare(loader)

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Adam, or Adadelta as Zeiler (2012) has it; a fine-tuned encoder has a learning rate of its own."""
        groups: dict[float, list[Tensor]] = {}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                encoder = name.startswith("embedding.encoder.")
                rate = self.settings.encoder_learning_rate if encoder else self.settings.learning_rate
                groups.setdefault(rate, []).append(parameter)
        optimisers: dict[str, Callable[..., torch.optim.Optimizer]] = {
            "adam": partial(torch.optim.AdamW, fused=True),
            "adadelta": partial(torch.optim.Adadelta, rho=0.95, eps=1e-6),
        }
        self.optimizer = optimisers[self.settings.optimiser](
            [{"params": parameters, "lr": rate} for rate, parameters in groups.items()],
            weight_decay=self.settings.weight_decay,
        )
        self.optimizer.register_step_post_hook(self._constrain)
        return self.optimizer

    def _constrain(self, *_: Any) -> None:
        """Let modules that limit their weights do so, after each step."""
        for module in self.model.modules():
            if hasattr(module, "constrain"):
                module.constrain()

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], *_: Any, **__: Any) -> Tensor:
        progress = self.state.global_step / max(1, self.state.max_steps)
        labels = inputs.pop(LABELS)
        output = model(**inputs)
        log_odds, extra = output if isinstance(output, tuple) else (output, 0.0)
        return self.loss(log_odds, labels, progress=progress) + extra

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        norm = super()._clip_grad_norm(model)
        if not torch.isfinite(norm):
            raise self._diverged("loss or gradient", self.state.global_step + 1)
        return norm

    def _diverged(self, what: str, step: int) -> Diverged:
        return Diverged(
            f"{what} is no longer a finite number at step {step} "
            f"(learning rate {self._get_learning_rate():g}); lower training.learning_rate, for example "
            f"--set training.learning_rate={self.settings.learning_rate / 3:.1g}, or training.clip"
        )

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Score the epoch on validation rows, remember the best, and stop when patience is over."""
        states = checkpoints.random_tensors()
        try:
            scores = self.validate(self.model)
        except FloatingPointError:
            raise self._diverged("the score of a validation row", self.state.global_step) from None
        checkpoints.restore_random(states)
        self.model.train()
        self.log(dict(scores))
        # a score of 0 is nothing to wait beside: of many labels the first takes epochs to reach its threshold
        if not self.state.best_metric or scores["score"] > self.state.best_metric:
            self.state.best_metric = scores["score"]
            self.state.best_global_step = self.state.global_step
        if self.out_of_patience:
            self.control.should_training_stop = True
        return scores

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Weights, moments, schedule and generators, as one folder that appears when it is complete."""
        draft = checkpoints.draft_of(self.folder, self.state.global_step)
        checkpoints.save_tensors(
            draft / checkpoints.random_file(self.args.process_index), checkpoints.random_tensors()
        )
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            checkpoints.save_tensors(draft / checkpoints.WEIGHTS, self.model.state_dict())
            checkpoints.save_tensors(
                draft / checkpoints.OPTIMISER, checkpoints.optimiser_tensors(self.optimizer)
            )
            write_json(draft / checkpoints.SCHEDULE, _schedule_state(self.lr_scheduler))
            self.state.save_to_json(str(draft / TRAINER_STATE_NAME))
            checkpoints.publish(draft, checkpoints.folder_of(self.folder, self.state.global_step))
            best = checkpoints.folder_of(self.folder, self.state.best_global_step or 0)
            checkpoints.tidy(self.folder, best=best)
        self.accelerator.wait_for_everyone()

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        weights = checkpoints.load_tensors(Path(resume_from_checkpoint) / checkpoints.WEIGHTS)
        self.model.load_state_dict(weights)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        folder = Path(checkpoint)
        checkpoints.restore_optimiser(
            self.optimizer, checkpoints.load_tensors(folder / checkpoints.OPTIMISER)
        )
        self.lr_scheduler.load_state_dict(json.loads((folder / checkpoints.SCHEDULE).read_text()))
        for group, rate in zip(self.optimizer.param_groups, self.lr_scheduler.get_last_lr(), strict=True):
            group["lr"] = rate

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            name = checkpoints.random_file(self.args.process_index)
            checkpoints.restore_random(checkpoints.load_tensors(Path(checkpoint) / name))


class _Flow(TrainerCallback):
    """Decides when to validate, to save and to stop; passes progress on."""

    def __init__(self, trainer: _Trainer, signals: "_Signals", report: Report) -> None:
        self.trainer = trainer
        self.signals = signals
        self.report = report

    def on_epoch_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.trainer.batches.set_epoch(state.global_step // self.trainer.steps_in_epoch)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.report(state.global_step, state.max_steps, {})
        # the last step of an epoch is saved after its validation, by on_epoch_end
        if self._ends_epoch(state):
            return
        if self.signals.received is not None:
            control.should_save = control.should_training_stop = True
        elif state.global_step % self.trainer.settings.checkpoint_steps == 0:
            control.should_save = True

    def on_epoch_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self._ends_epoch(state):
            control.should_evaluate = control.should_save = True
            if self.signals.received is not None:
                control.should_training_stop = True

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, float], **_: Any
    ) -> None:
        self.report(state.global_step, state.max_steps, logs)

    def _ends_epoch(self, state: TrainerState) -> bool:
        return state.global_step % self.trainer.steps_in_epoch == 0


class _Signals:
    """The first Ctrl-C or SIGTERM asks training to save and stop; the second one ends the process at once."""

    received: int | None = None

    def __enter__(self) -> "_Signals":
        self.before = {
            number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            raise SystemExit(128 + number)
        self.received = number


def _arguments(config: TrainingConfig, folder: Path) -> TrainingArguments:
    bfloat16 = config.precision == "bfloat16" or (
        config.precision == "auto"
        and config.device != "cpu"
        and torch.cuda.is_available()
        and torch.cuda.is_bf16_supported()
    )
    return TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=config.batch_size,
        num_train_epochs=config.epochs,
        learning_rate=config.learning_rate,
        lr_scheduler_type="constant_with_warmup" if config.schedule == "constant" else config.schedule,
        warmup_steps=config.warmup,
        max_grad_norm=config.clip,
        seed=config.seed,
        bf16=bfloat16,
        use_cpu=config.device == "cpu" or not torch.cuda.is_available(),
        eval_strategy="no",
        save_strategy="no",
        logging_strategy="steps",
        logging_steps=20,
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        ddp_find_unused_parameters=False,
        log_level="error",
    )


def _schedule_state(schedule: Any) -> dict[str, Any]:
    """A schedule's numbers; its functions of the step come from the config."""
    state = schedule.state_dict()
    return {key: [None] * len(value) if key == "lr_lambdas" else value for key, value in state.items()}


def _add_tensorboard(trainer: Trainer, folder: Path) -> None:
    try:
        from torch.utils.tensorboard import SummaryWriter
        from transformers.integrations import TensorBoardCallback
    except ImportError:
        raise CapstextError(
            "training.tensorboard: not installed; pip install 'capstext[tensorboard]'"
        ) from None
    trainer.add_callback(TensorBoardCallback(SummaryWriter(str(folder.parent / "tensorboard"))))


def discard_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a training whose result is saved."""
    shutil.rmtree(folder, ignore_errors=True)
