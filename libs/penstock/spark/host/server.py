"""The host's main part: commands in, replies and events out, and all the ways in which it ends."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from types import FrameType
from typing import Any, NoReturn

from pyspark.sql import SparkSession

from penstock.control.clock import SystemClock
from penstock.control.errors import LeaseLost
from penstock.control.logs import logger
from penstock.control.masks import Masks
from penstock.control.process import signal_group, wait_until
from penstock.spark.access import values_in
from penstock.spark.channel import (
    COMMANDS,
    Access,
    CancelHostTask,
    Command,
    Exit,
    GiveUp,
    HostTaskProgress,
    Lease,
    Live,
    Loads,
    Prepare,
    Progress,
    Reply,
    RunHostTask,
    Start,
    Stop,
)
from penstock.spark.failures import failure_of
from penstock.spark.host.exits import ExitReason, exit_for_jvm
from penstock.spark.host.handlers import RunningHostTasks
from penstock.spark.host.lease import LeaseWatch
from penstock.spark.host.loads import LoadMeter
from penstock.spark.host.pipes import MessageWriter
from penstock.spark.host.poll_pace import PollPace
from penstock.spark.host.preparing import PrepareQueue
from penstock.spark.host.queues import TaskQueues, Work
from penstock.spark.host.tasks import TaskTable
from penstock.spark.inputs.watch import InputWatch
from penstock.spark.settings import SparkSettings
from penstock.spark.task import Runtime

log = logger(__name__)

_EXIT_TIMEOUT_SECONDS = 30.0
_LAST_WORDS_SECONDS = 0.5


class Host:
    """One session, many tasks. `serve` reads commands until the supervisor is gone."""

    def __init__(
        self,
        name: str,
        spark: SparkSession,
        jvm: subprocess.Popen[bytes],
        settings: SparkSettings,
        events: MessageWriter,
        masks: Masks,
    ) -> None:
        self._spark = spark
        self._jvm = jvm
        self._settings = settings
        self._events = events
        self._masks = masks
        runtime = Runtime(spark, settings, holder=f"{name} pid {os.getpid()}")
        runtime.watch.listen(runtime.java_context)
        self._tasks = TaskTable(runtime)
        self._host_tasks = RunningHostTasks(runtime, self._require_lease, SystemClock(), settings.max_concurrent_starts)
        self._meter = LoadMeter(runtime.watch, SystemClock(), settings.disk_interval_seconds)
        self._queues = TaskQueues(settings.max_concurrent_starts)
        self._preparing = PrepareQueue(SystemClock(), lambda spec: self._tasks.give_up(spec.task_id, spec.generation))
        classes: Any = spark._jvm
        self._jvm_lease = classes.io.penstock.host.LeaseWatch
        self._jvm_calls = TaskQueues(1)
        self._lease = LeaseWatch(SystemClock(), self._begin_lease_end)
        self._ending = threading.Event()
        self._death = threading.Lock()
        self._threads: list[threading.Thread] = []

    def serve(self, lines: Iterator[bytes]) -> NoReturn:
        """Carries out commands, a JSON line each; does not return. Start it on the main thread."""
        signal.signal(signal.SIGCONT, self._on_continue)
        threading.excepthook = self._on_thread_error
        for target in (self._lease.watch, self._poll_queries, self._measure, self._look_at_inputs, self._await_jvm):
            thread = threading.Thread(target=target, name=target.__name__.strip("_"), daemon=True)
            self._threads.append(thread)
            thread.start()
        gc.freeze()
        for line in lines:
            self._lease.check()
            self._handle(COMMANDS.validate_json(line))
        self.die(ExitReason.SUPERVISOR_GONE)

    def die(self, code: ExitReason) -> NoReturn:
        """Kills the JVM and ends this process at once. The first reason counts: killing the JVM looks like another."""
        self._death.acquire()
        log.warning("host ends", reason=code.name.lower())
        signal_group(self._jvm.pid, signal.SIGKILL)
        self._events.flush(_LAST_WORDS_SECONDS)
        os._exit(code)

    def _handle(self, command: Command) -> None:
        match command:
            case Start():
                self._keep_secret(command.access)
                self._enqueue(command.id, command.spec.task_id, partial(self._start, command))
            case Prepare():
                self._keep_secret(command.access)
                # Not behind commands of the task, nor before them.
                self._preparing.submit(command.spec, partial(self._prepare, command), partial(self._answer, command.id))
            case GiveUp():
                work, done = partial(self._give_up, command), partial(self._answer, command.id)
                self._queues.submit(f"give up {command.task_id}", work, done, urgent=True)
            case Stop():
                self._enqueue_stop(command)
            case Live():
                self._enqueue(command.id, command.spec.task_id, partial(self._tasks.live, command.spec))
            case RunHostTask(task=task, access=access):
                self._keep_secret(access)
                done, report = partial(self._answer, command.id), partial(self._report, command.id)
                self._host_tasks.submit(task, done, report, access)
            case CancelHostTask():
                self._host_tasks.cancel(command.key)
                self._reply(command.id, {})
            case Lease():
                self._renew(command)
            case Exit():
                threading.Thread(target=self._exit, args=(command.id,), name="exit", daemon=True).start()

    def _keep_secret(self, access: Access) -> None:
        """No event and no log line shows these from now on, whatever the text of an error says."""
        self._masks.add(values_in(access))

    def _enqueue(self, command_id: int, task_id: str, work: Work) -> None:
        self._queues.submit(task_id, work, partial(self._answer, command_id))

    def _enqueue_stop(self, command: Stop) -> None:
        """Behind the start of the same task only, which is interrupted when it takes long."""
        begun = threading.Event()

        def stop() -> dict[str, Any]:
            begun.set()
            return self._tasks.stop(command.task_id, finish_pending=command.finish_pending)

        hurry = partial(self._tasks.hurry_start, command.task_id, begun)
        self._queues.submit(f"start before {command.id}", hurry, _log_error, urgent=True)
        self._queues.submit(command.task_id, stop, partial(self._answer, command.id), urgent=True)

    def _answer(self, command_id: int, future: Future[Any]) -> None:
        error = future.exception()
        if error is None:
            self._reply(command_id, future.result())
            return
        failure = failure_of(error)
        story = error if failure.error_kind == "retryable" else None
        log.warning("command failed", command=command_id, kind=failure.error_kind, error=failure.error, exc_info=story)
        self._events.send(Reply(id=command_id, ok=False, error=failure.error, error_kind=failure.error_kind))

    def _report(self, command_id: int, text: str) -> None:
        if not self._events.is_congested():
            self._events.send(HostTaskProgress(id=command_id, text=text))

    def _reply(self, command_id: int, result: dict[str, Any]) -> None:
        self._events.send(Reply(id=command_id, ok=True, result=result))

    def _start(self, command: Start) -> dict[str, Any]:
        self._require_lease()
        return self._tasks.start(command.spec, command.epoch, command.commit_number, command.access)

    def _prepare(self, command: Prepare, given_up: threading.Event) -> dict[str, Any]:
        self._require_lease()
        return self._tasks.prepare(command.spec, command.access, given_up)

    def _give_up(self, command: GiveUp) -> dict[str, Any]:
        self._preparing.give_up(command.task_id, command.generation)
        return self._tasks.give_up(command.task_id, command.generation)

    def _require_lease(self) -> None:
        if self._ending.is_set():
            raise LeaseLost("this host is ending")
        if not self._lease.may_start():
            raise LeaseLost("this host has no good lease")

    def _renew(self, command: Lease) -> None:
        """Answered once the JVM's own watch has the lease too."""
        left_seconds = self._lease.renew(command.seconds, command.sent_at)
        if left_seconds <= 0:
            self._reply(command.id, {"seconds_left": left_seconds})
            return
        millis = int((left_seconds + self._settings.lease_grace_seconds) * 1000)

        def renew() -> dict[str, Any]:
            self._jvm_lease.renew(millis)
            return {"seconds_left": left_seconds}

        self._jvm_calls.submit("lease", renew, partial(self._answer, command.id))

    def _on_continue(self, signal_number: int, frame: FrameType | None) -> None:
        """After a stop by signal the lease comes first: commands may have waited in the pipe meanwhile."""
        self._lease.check()

    def _begin_lease_end(self) -> None:
        log.warning("lease ran out", tasks=len(self._tasks.ids()))
        self._ending.set()
        threading.Thread(target=self._end_of_lease, name="lease-end", daemon=True).start()

    def _end_of_lease(self) -> None:
        """Stops what can be stopped in the time of grace; killing the JVM stops the rest."""
        self._stop_all(self._settings.lease_grace_seconds - 2 * _LAST_WORDS_SECONDS)
        self.die(ExitReason.LEASE_LOST)

    def _exit(self, command_id: int) -> None:
        self._ending.set()
        self._stop_all(_EXIT_TIMEOUT_SECONDS)
        self._reply(command_id, {})
        self.die(ExitReason.ASKED)

    def _stop_all(self, timeout_seconds: float) -> None:
        self._queues.submit("end of preparing", self._preparing.end, _log_error, urgent=True)
        for task_id in self._tasks.ids():
            stop = partial(self._tasks.stop, task_id, finish_pending=False, patient=False)
            self._queues.submit(task_id, stop, _log_error, urgent=True)
        try:
            wait_until(lambda: not self._tasks.ids(), timeout_seconds, "the tasks to stop")
        except TimeoutError:
            log.warning("tasks did not stop in time", tasks=self._tasks.ids())

    def _poll_queries(self) -> None:
        """Also without any task: what is sent shows the supervisor that the JVM answers."""
        clock, pace = SystemClock(), PollPace(self._settings.progress_interval_seconds)
        while not self._ending.wait(pace.tick_seconds):
            if not pace.is_due(clock.monotonic(), awaits_quiet=self._tasks.awaits_quiet()):
                continue
            self._preparing.proceed()
            progress, all_ended = self._tasks.poll()
            for ended in all_ended:
                self._events.send(ended)
            if not self._events.is_congested():
                self._events.send(Progress(tasks=progress))
            self._host_tasks.report_hung()

    def _measure(self) -> None:
        """On a thread of its own: a disk that hangs must not hold up progress, nor a failure end the host."""
        while not self._ending.wait(self._settings.load_interval_seconds):
            try:
                loads = self._meter.measure(self._tasks.running())
            except Exception:
                log.exception("loads not measured")
                continue
            if loads and not self._events.is_congested():
                self._events.send(Loads(tasks=loads))

    def _look_at_inputs(self) -> None:
        """On a thread of its own, as Kafka may be slow to answer."""
        watch = InputWatch(self._spark, self._settings.cluster, SystemClock())
        while not self._ending.wait(watch.wait_seconds(self._settings.inputs_interval_seconds)):
            tasks = self._tasks.running()
            try:
                found = watch.check(
                    (task.spec for task in tasks.values()), {each: tasks[each].topics for each in tasks}
                )
            except Exception:
                log.exception("inputs not looked at")
                continue
            for task_id, problems in found.items():
                tasks[task_id].input_problems = problems

    def _on_thread_error(self, failed: threading.ExceptHookArgs) -> None:
        """A host without one of its threads would be blind: it ends. The end of the JVM shows here, too."""
        if failed.thread not in self._threads:
            threading.__excepthook__(failed)
            return
        log.error("thread failed", thread=failed.thread.name, exc_info=failed.exc_value)
        try:
            self.die(exit_for_jvm(self._jvm.wait(_LAST_WORDS_SECONDS)))
        except subprocess.TimeoutExpired:
            self.die(ExitReason.CRASHED)

    def _await_jvm(self) -> None:
        self.die(exit_for_jvm(self._jvm.wait()))


def _log_error(future: Future[Any]) -> None:
    """Work that nobody waits for: an error of it is logged."""
    error = future.exception()
    if error is not None:
        log.error("work failed", exc_info=error)
