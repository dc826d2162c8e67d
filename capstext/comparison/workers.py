"""Tasks side by side, in processes of one thread each. A stop loses nothing; a failed task stops no other."""

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context, parent_process
from queue import Empty
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from capstext.errors import CapstextError

if TYPE_CHECKING:
    from capstext.comparison.tasks import Task

REPORT_EVERY = 0.5  # seconds


class News(NamedTuple):
    """What a process tells while it works: its number, the share of a task that is done, or a warning."""

    kind: Literal["process", "share", "warning"]
    title: str
    value: Any


class Failure(NamedTuple):
    """A task that left no file, and why."""

    title: str
    reason: str


Tell = Callable[[News], None]
Done = Callable[["Task", Failure | None], None]


class Workers:
    """Processes that take one task after another; `tell` hears of progress, `done` of each end."""

    def __init__(self, count: int, *, tell: Tell, done: Done) -> None:
        context = get_context("spawn")
        self.news = context.Queue()
        self.processes: set[int] = set()
        self.tell, self.done = tell, done
        self.pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(self.news,))

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, fault: type[BaseException] | None, *_: object) -> None:
        if fault is None or issubclass(fault, CapstextError):
            self.pool.shutdown()
        else:
            self._stop()

    def perform(self, tasks: Sequence["Task"]) -> list[Failure]:
        """Perform every task; those that failed are returned."""
        waiting = {self.pool.submit(_perform, task): task for task in tasks}
        failures: list[Failure] = []
        try:
            while waiting:
                ended, _ = wait(waiting, timeout=REPORT_EVERY, return_when=FIRST_COMPLETED)
                _drain(self.news, self.processes, self.tell)
                for future in ended:
                    task = waiting.pop(future)
                    failure = future.result()
                    failures += [failure] if failure else []
                    self.done(task, failure)
        except BrokenProcessPool:
            raise CapstextError(
                "a process was killed from outside, perhaps for want of memory; finished runs are kept: "
                "go on with --resume, and fewer --workers"
            ) from None
        return failures

    def _stop(self) -> None:
        """Ask every training to save and end; asked a second time, they end at once."""
        for attempt in range(2):
            _drain(self.news, self.processes, lambda news: None)
            for process in self.processes:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGTERM)
            try:
                self.pool.shutdown(wait=True, cancel_futures=True)
                return
            except (KeyboardInterrupt, SystemExit):
                if attempt:
                    raise


def _drain(news: Any, processes: set[int], tell: Tell) -> None:
    while True:
        try:
            item = news.get_nowait()
        except Empty:
            return
        if item.kind == "process":
            processes.add(item.value)
        else:
            tell(item)


_news: Any = None
_stopped = False
_working = threading.Lock()


def _begin(news: Any) -> None:
    """One thread; no signals of the terminal, which the parent passes on; an end when the parent is gone."""
    global _news
    _news = news
    os.setsid()
    signal.signal(signal.SIGTERM, _leave)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    threading.Thread(target=_follow_parent, daemon=True).start()
    news.put(News("process", "", os.getpid()))
    import torch

    torch.set_num_threads(1)


def _leave(number: int, frame: FrameType | None) -> None:
    """Between trainings, which take signals themselves: begin no other; at the second signal, end."""
    global _stopped
    if _stopped:
        os._exit(128 + number)
    _stopped = True


def _follow_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        with _working:  # once the training is saved
            os._exit(1)


def _perform(task: "Task") -> Failure | None:
    with _working:
        return _performed(task)


def _performed(task: "Task") -> Failure | None:
    global _stopped
    from capstext.comparison.tasks import Stopped, perform

    last = time.monotonic()

    def report(step: int, steps: int, facts: dict[str, float]) -> None:
        nonlocal last
        if time.monotonic() - last > REPORT_EVERY:
            last = time.monotonic()
            _news.put(News("share", task.title, step / max(steps, 1)))

    def warn(message: str) -> None:
        _news.put(News("warning", task.title, message))

    try:
        perform(task, report=report, warn=warn, stopping=lambda: _stopped)
    except Stopped as error:
        _stopped = True
        return Failure(task.title, str(error))
    except CapstextError as error:
        return Failure(task.title, str(error))
    except OSError as error:
        return Failure(task.title, f"{error.filename or task.file}: {error.strerror or error}")
    except SystemExit:  # a training that was told to stop twice
        os._exit(1)
    except Exception:
        return Failure(task.title, traceback.format_exc(limit=-3))
    return None
