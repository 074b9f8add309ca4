"""Hands tasks of a head to a Ray cluster. The head starts this program and talks with it in JSON lines.

Lines from the head: {"start": {...}} once, then {"task": {...}}. Lines to the head: {"ready": {"workers": N, "nodes": [...]}},
{"answer": {"number": N, "answer": {...}}} and {"error": "..."}.

Each actor starts one worker process of the program, which keeps what it has compiled and computed between tasks. Ray
restarts the actor of a lost node elsewhere; the tasks that it had are submitted again here, so that each is counted once.
So are tasks that a worker could not do, to another worker if there is one.
"""

import hashlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time

_out = os.fdopen(os.dup(1), "w", buffering=1)
# Ray prints to standard output.
os.dup2(2, 1)


def tell(kind, value):
    _out.write(json.dumps({kind: value}) + "\n")


class WorkerLost(Exception):
    """The worker process ended in the middle of a task."""


class Worker:
    """An actor: one worker process.

    The process is started by the first task. Ray starts an actor whose constructor ends the process again for ever, and an
    actor whose constructor raises never again.
    """

    def __init__(self, program, digest, contents, arguments, job):
        self.program, self.digest, self.contents = program, digest, contents
        self.arguments, self.job = arguments, job
        self.process = None

    def _start(self):
        path = self.program
        if not _is_same(path, self.digest):
            # This node lacks the program, so it gets the head's. The name has the hash: nodes may share the folder.
            folder = os.path.join(os.path.expanduser("~"), ".cache", "warpsmith", "programs")
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, self.digest)
            if not _is_same(path, self.digest):
                partial = f"{path}.{os.getpid()}.partial"
                with open(partial, "wb") as file:
                    file.write(self.contents)
                os.chmod(partial, 0o755)
                os.replace(partial, path)
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [path, "worker", "--fleet", "pipe", *self.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self._send({"job": self.job})

    def _send(self, line):
        try:
            self.process.stdin.write(json.dumps(line) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise WorkerLost(str(error)) from error

    def _outcome(self, task):
        try:
            if self.process is None:
                self._start()
            self._send({"task": task})
            reply = self.process.stdout.readline()
            if not reply:
                raise WorkerLost("end of output")
            return json.loads(reply)["outcome"]
        except WorkerLost:
            self.process.kill()
            status = self.process.wait()
            if status < 0:
                # A signal ended it. Ray starts another actor in place of this one. An exception would leave this actor
                # without a process.
                os._exit(1)
            reason = f"its worker process ended with status {status}{self._last_error()}"
        except OSError as error:
            reason = f"its worker process cannot be started: {error}"
        # This machine lacks something. Another one may have it.
        self.process = None
        return {"failed": reason}

    def _last_error(self):
        self.errors.seek(max(0, self.errors.seek(0, os.SEEK_END) - 4096))
        lines = self.errors.read().decode(errors="replace").splitlines()
        told = [line for line in lines if line.startswith("error")] or lines
        return f": {told[-1]}" if told else ""

    def run(self, task):
        started = time.monotonic()
        outcome = self._outcome(task)
        host = os.uname().nodename
        return {
            "outcome": outcome,
            "worker": f"{host}-{self.process.pid if self.process else os.getpid()}",
            "host": host,
            "seconds": time.monotonic() - started,
        }


def _is_same(path, digest):
    try:
        with open(path, "rb") as file:
            return os.access(path, os.X_OK) and hashlib.sha256(file.read()).hexdigest() == digest
    except OSError:
        return False


def read_lines(lines):
    for line in sys.stdin:
        lines.put(json.loads(line))
    lines.put(None)


def choose(free, failed_by, count):
    """A free worker for a task. Workers that could not do it are used only if all have failed."""
    others = [worker for worker in free if worker not in failed_by]
    if others:
        return others[0]
    return free[0] if free and len(set(failed_by)) >= count else None


def connect(ray, address, workers):
    quiet = {"log_to_driver": False, "logging_level": "error"}
    if address:
        ray.init(address=address, **quiet)
        return
    try:
        ray.init(address="auto", **quiet)
    except ConnectionError:
        # There is no cluster on this machine, so one is started; it ends with this program.
        ray.init(num_cpus=workers or None, include_dashboard=False, **quiet)


def main():
    lines = queue.Queue()
    threading.Thread(target=read_lines, args=(lines,), daemon=True).start()
    start = lines.get()["start"]
    try:
        import ray
        from ray.exceptions import RayActorError
    except ImportError:
        tell("error", "Python has no package `ray`; install it with `pip install ray`")
        return
    try:
        connect(ray, start["address"], start["workers"])
    except (ConnectionError, RuntimeError, ValueError) as error:
        tell("error", f"no cluster at {start['address'] or 'this machine'}: {str(error).strip().splitlines()[0]}")
        return
    with open(start["program"], "rb") as file:
        contents = file.read()
    digest = hashlib.sha256(contents).hexdigest()
    contents = ray.put(contents)
    kind = "GPU" if start["gpu"] else "CPU"
    most = start["workers"] or int(ray.cluster_resources().get(kind, 0))
    if most == 0:
        tell("error", f"the cluster has no {kind}")
        return
    resources = {"num_gpus": 1, "num_cpus": 0} if start["gpu"] else {"num_cpus": 1}
    actor = ray.remote(max_restarts=-1, max_task_retries=0, **resources)(Worker)
    arguments = (start["program"], digest, contents, start["arguments"], start["job"])
    workers = [actor.remote(*arguments) for _ in range(most)]
    free = list(range(most))
    tell("ready", {"workers": most, "nodes": [node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]]})
    waiting, running, lost, failed_by = [], {}, {}, {}
    is_open = True
    while is_open or running:
        try:
            while True:
                line = lines.get(timeout=0 if running else 0.5) if is_open else None
                if line is None:
                    is_open = False
                    break
                waiting.append(line["task"])
        except queue.Empty:
            pass
        if not is_open:
            # The head is gone or has ended the job. Its tasks are of no use to anybody.
            break
        waiting.sort(key=lambda task: task["number"])
        for task in list(waiting):
            worker = choose(free, failed_by.get(task["number"], []), most)
            if worker is not None:
                free.remove(worker)
                waiting.remove(task)
                running[workers[worker].run.remote(task)] = (worker, task)
        if not running:
            continue
        ready, _ = ray.wait(list(running), timeout=0.05)
        for reference in ready:
            worker, task = running.pop(reference)
            free.append(worker)
            number = task["number"]
            try:
                answer = ray.get(reference)
                if "failed" in answer["outcome"]:
                    failures = failed_by.setdefault(number, [])
                    failures.append(worker)
                    if len(failures) < start["attempts"]:
                        waiting.append(task)
                        continue
            except RayActorError:
                lost[number] = lost.get(number, 0) + 1
                if lost[number] < start["attempts"]:
                    waiting.append(task)
                    continue
                answer = {"outcome": {"lost": lost[number]}, "worker": "", "host": "", "seconds": 0.0}
            except Exception as error:  # noqa: BLE001
                tell("error", str(error))
                return
            tell("answer", {"number": number, "answer": answer})


if __name__ == "__main__":
    main()
