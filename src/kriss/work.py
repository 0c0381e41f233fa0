"""Work cut into pieces: made in this process, by processes beside it or on a Ray cluster, and resumable.

A stage describes its work as a job and a list of pieces. A piece is a small record with a name; its result is one
file or folder of that name, which appears whole or not at all, so what is there is done. All results lie in a folder
named after a digest of everything that decides them: results for other inputs are never used, and are removed.
So kriss alone knows what is missing, and an engine only hands out pieces; who makes one, and when, does not matter.

    work = Work.open(out.parent / f".{out.name}.mining", {"config": ..., "inputs": ...})
    names = work.once("names", write_names)
    with work.made_by(Local(workers=2), open_job) as make:
        for piece, figures in make(pieces):     # those that are missing, as they are finished
            ...
    work.remove()
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kriss.errors import ConfigError, InputError, KrissError, MissingExtraError

_ALLOCATIONS = 1_000_000
"""Objects made before Python searches for garbage: a page of text makes many, and none is part of a cycle."""
_GOES_ON = "run the same command again: it goes on where it stopped"

Figures = dict[str, Any]
"""What is worth knowing of a finished piece: for a progress bar, not part of the result."""


class Piece(Protocol):
    """A description of one result, small and picklable."""

    @property
    def name(self) -> str:
        """The name of its file or folder."""


P = TypeVar("P", bound=Piece)
T = TypeVar("T")
Make = Callable[[Sequence[P]], Iterator[tuple[P, Figures]]]
Open = Callable[[], Callable[[P, Path], Figures]]
"""A job, picklable and with absolute paths: called once in each process, it loads what all pieces need and returns what
writes the result of one to a path."""


def engine_named(name: str, address: str = "", workers: int = 1) -> Engine:
    """Return the engine that the options `--engine`, `--ray-address` and `--workers` describe."""
    if name == "ray":
        return Ray(address, workers)
    if name != "local":
        raise ConfigError(f"--engine is local or ray, not '{name}'")
    if address:
        raise ConfigError("--ray-address goes with --engine ray")
    return Local(workers)


@dataclass(frozen=True, slots=True)
class Work:
    """A folder of finished pieces, all for the same inputs."""

    folder: Path

    @classmethod
    def open(cls, parent: Path, inputs: Mapping[str, Any]) -> Work:
        """Continue what an interrupted run left in `parent` for these inputs, or start anew."""
        folder = parent / sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:32]
        if parent.is_dir():
            for other in parent.iterdir():
                if other != folder:
                    _remove(other)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder.resolve())

    def once(self, name: str, write: Callable[[Path], object]) -> Path:
        """Return a file or folder that is written the first time it is asked for."""
        path = self.folder / name
        if not path.exists():
            _written(path, write)
        return path

    def missing(self, pieces: Iterable[P]) -> list[P]:
        """Return the pieces that are not made yet."""
        return [piece for piece in pieces if not (self.folder / piece.name).exists()]

    @contextmanager
    def made_by(self, engine: Engine, job: Open[P]) -> Iterator[Make[P]]:
        """Yield what makes those pieces that are missing; the engine starts when there is a first."""
        with ExitStack() as stack:
            started: list[Make[P]] = []

            def make(pieces: Sequence[P]) -> Iterator[tuple[P, Figures]]:
                if not (missing := self.missing(pieces)):
                    return
                if not started:
                    started.append(stack.enter_context(engine.start(job, self.folder)))
                yield from started[0](missing)

            yield make

    def remove(self) -> None:
        """Remove all of it, once the results are where they should be."""
        shutil.rmtree(self.folder.parent)


def _written(path: Path, write: Callable[[Path], T]) -> T:
    """Write a file or folder under another name, and give it its own when it is whole."""
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    _remove(draft)
    try:
        result = write(draft)
        try:
            draft.rename(path)
        except OSError:
            if not path.is_dir():  # else another process, of a run that was thought dead, was as quick
                raise
        return result
    finally:
        _remove(draft)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Local:
    """One worker is this process; more are forks of one process that opens the job, and share its memory."""

    workers: int = 1

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"--workers must be at least 1, not {self.workers}")

    def start(self, job: Open[P], folder: Path) -> AbstractContextManager[Make[P]]:
        """Open the job here, or start the processes."""
        return _here(job, folder) if self.workers == 1 else _beside(job, folder, self.workers)


@contextmanager
def _here(job: Open[P], folder: Path) -> Iterator[Make[P]]:
    before = gc.get_threshold()
    write = job()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS)
    try:
        yield lambda pieces: ((piece, _written(folder / piece.name, partial(write, piece))) for piece in pieces)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def _beside(job: Open[P], folder: Path, workers: int) -> Iterator[Make[P]]:
    """Start a process that opens the job and forks: this one may have threads, which a fork would not have."""
    command = [sys.executable, "-c", "from kriss.work import serve; serve()", str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    requests, answers = process.stdin, process.stdout

    def ask(request: object) -> None:
        with suppress(BrokenPipeError):  # the missing answer tells
            pickle.dump(request, requests)
            requests.flush()

    def answer() -> Any:  # noqa: ANN401 - whatever the process sends
        try:
            found = pickle.load(answers)  # noqa: S301 - from our own process
        except EOFError:
            raise KrissError(f"the process that starts the workers died (out of memory?); {_GOES_ON}") from None
        if isinstance(found, Exception):
            raise found
        return found

    def make(pieces: Sequence[P]) -> Iterator[tuple[P, Figures]]:
        ahead = workers + 1  # a worker that is done finds another piece there
        for piece in pieces[:ahead]:
            ask(piece)
        for done in range(len(pieces)):
            found = answer()
            for piece in pieces[ahead + done : ahead + done + 1]:
                ask(piece)
            yield found

    try:
        ask((job, folder, workers))
        answer()
        yield make
    finally:
        process.kill()  # which ends its forks; without a word, for it may be busy opening the job
        with suppress(BrokenPipeError):
            requests.close()
        while answers.read(1 << 16):  # until the last of them is gone
            pass
        answers.close()
        process.wait()


def serve() -> None:
    """Be the process that `_beside` starts: it lives no longer than its parent, and its forks no longer than it."""
    global _write
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed must not come between the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which then ends this

    def answer(found: object) -> None:
        with suppress(BrokenPipeError):
            pickle.dump(found, answers)
            answers.flush()

    def finished(future: Future[Any]) -> None:
        error = future.exception()
        lost = f"a worker died (out of memory?); with fewer --workers, {_GOES_ON}"
        answer(future.result() if error is None else KrissError(lost))

    with suppress(EOFError, BrokenExecutor):  # the parent is gone, or a worker, which the others' answers tell
        job, folder, workers = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own parent
        _write = _attempt(job, folder)
        answer(_write if isinstance(_write, Exception) else "ready")
        gc.freeze()
        gc.set_threshold(_ALLOCATIONS)
        pool = ProcessPoolExecutor(workers, get_context("fork"), initializer=_end_with_parent)
        while True:
            piece = pickle.load(sys.stdin.buffer)  # noqa: S301
            pool.submit(_make, piece, folder).add_done_callback(finished)
    os._exit(0)  # at once: what is in work is lost, and tidying takes a while


_write: Any = None
"""The job as this process has opened it, for its forks."""


def _make(piece: Piece, folder: Path) -> object:
    return _attempt(lambda: (piece, _written(folder / piece.name, partial(_write, piece))), folder)


def _end_with_parent() -> None:
    def wait() -> None:
        if parent := parent_process():
            parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _attempt(work: Callable[[], T], folder: Path) -> T | Exception:
    """Return what the work gives, or what goes wrong as an error that can be raised in another process."""
    try:
        return work()
    except InputError as error:
        return InputError(str(error))
    except KrissError as error:
        return KrissError(str(error))
    except OSError as error:
        return KrissError(f"{error.filename or folder}: {error.strerror or error}")
    except Exception:  # noqa: BLE001 - a bug: its traceback must reach the user
        return RuntimeError(traceback.format_exc())


@dataclass(frozen=True, slots=True)
class Ray:
    """All nodes of a Ray cluster: one actor a node, which works as `Local` does, so that its workers share memory.

    All nodes must see the inputs and the folder of --out under the same paths, as on a shared disk.
    """

    address: str = ""
    """The cluster to join; without one, one is started on this machine."""
    workers: int = 1

    @contextmanager
    def start(self, job: Open[P], folder: Path) -> Iterator[Make[P]]:
        """Put an actor on each node."""
        with _cluster(self.address) as ray:
            nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
            actors = [_placed(ray, node).remote(job, folder, self.workers) for node in nodes]
            pool = ray.util.ActorPool(actors)
            size = 2 * self.workers if self.workers > 1 else 1

            def make(pieces: Sequence[P]) -> Iterator[tuple[P, Figures]]:
                batches = [pieces[first : first + size] for first in range(0, len(pieces), size)]
                try:
                    for found in pool.map_unordered(lambda actor, batch: actor.make.remote(batch), batches):
                        if isinstance(found, Exception):
                            raise found
                        yield from found
                except ray.exceptions.RayError as error:
                    raise KrissError(f"a node failed ({_first_line(error)}); {_GOES_ON}") from None

            try:
                yield make
            finally:
                for actor in actors:
                    ray.kill(actor)


Engine = Local | Ray


class Node:
    """What runs on a node of a cluster; when it is killed, its workers end."""

    def __init__(self, job: Open[Any], folder: Path, workers: int) -> None:
        self._folder = folder
        self._context = Local(workers).start(job, folder)
        self._make = _attempt(self._context.__enter__, folder)

    def make(self, pieces: Sequence[Piece]) -> list[tuple[Piece, Figures]] | Exception:
        """Make pieces; return an error rather than raise it, which Ray would wrap."""
        make = self._make
        return make if isinstance(make, Exception) else _attempt(lambda: list(make(pieces)), self._folder)


def _placed(ray: Any, node: dict[str, Any]) -> Any:  # noqa: ANN401 - Ray's handles have no type
    """Return the class of an actor that has a node to itself."""
    where = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    return ray.remote(Node).options(num_cpus=max(1, int(node["Resources"]["CPU"])), scheduling_strategy=where)


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Yield the module `ray`, connected; one that was started here is ended here."""
    try:
        import ray
        import ray.util.actor_pool
    except ModuleNotFoundError:
        raise MissingExtraError("ray", "ray", "--engine ray") from None
    started = not ray.is_initialized()
    if started:
        try:
            # "local": without an address Ray would join whatever cluster runs on this machine.
            ray.init(address=address or "local", log_to_driver=False, include_dashboard=False)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise KrissError(
                f"no Ray cluster can be used at '{address or 'this machine'}': {_first_line(error)}"
            ) from None
    try:
        yield ray
    finally:
        if started:
            ray.shutdown()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
