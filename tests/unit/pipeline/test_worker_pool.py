"""Processes that read: each page goes to one of them, one that dies costs its page only, and none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from PIL import Image
from tests.unit.pipeline.pool_readers import MakePidReader

from gravityocr.document import Crop
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError
from gravityocr.pipeline.worker_pool import WorkerPool


def crops(*widths: int) -> list[Crop]:
    return [Crop(Image.new("RGB", (width, 5), "white")) for width in widths]


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(MakePidReader(), 2) as pool:
        yield pool


def gone(pids: list[int]) -> bool:
    return psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=5)[1] == []


def test_pages_are_shared_out_and_answers_keep_their_order(pool: WorkerPool) -> None:
    assert pool.tasks == frozenset({"text", "table"}) and pool.text_format == "markdown"
    pages = [crops(20 + page, 40 + page) for page in range(8)]
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(pool.recognize, pages))
    assert [[int(one.text.split()[1]) for one in answer] for answer in answers] == [[20 + n, 40 + n] for n in range(8)]
    readers = {int(one.text.split()[0]) for answer in answers for one in answer}
    assert readers <= set(pool.pids) and os.getpid() not in readers
    assert all(len({one.text.split()[0] for one in answer}) == 1 for answer in answers)


def test_a_process_that_dies_costs_its_page_and_is_replaced(pool: WorkerPool) -> None:
    before = pool.pids
    lost = pool.recognize(crops(30, 13))
    assert [one.status for one in lost] == ["failed", "failed"]
    assert "SIGKILL" in str(lost[0].error) and "fewer --workers" in str(lost[0].error)
    assert pool.n_deaths == 1 and len(pool.pids) == 2 and len(set(pool.pids) & set(before)) == 1
    answers = [pool.recognize(crops(31)) for _ in range(4)]
    assert [answer[0].status for answer in answers] == ["ok"] * 4
    assert {int(answer[0].text.split()[0]) for answer in answers} <= set(pool.pids)


def test_one_killed_before_it_has_a_page_is_replaced_and_costs_none(pool: WorkerPool) -> None:
    processes = [psutil.Process(pid) for pid in pool.pids]
    for process in processes:
        process.kill()
    psutil.wait_procs(processes, timeout=5)
    assert [pool.recognize(crops(20))[0].status for _ in range(4)] == ["ok"] * 4


def test_processes_that_die_while_they_start_are_started_again(tmp_path: Path) -> None:
    with WorkerPool(MakePidReader(dies_until=(str(tmp_path), 2)), 1) as pool:
        assert pool.recognize(crops(20))[0].status == "ok" and pool.n_deaths == 2
    for process in list(tmp_path.iterdir()):
        process.unlink()
    with WorkerPool(MakePidReader(dies_until=(str(tmp_path), 3)), 2) as pool:  # one is ready, the other dies
        assert [pool.recognize(crops(20 + n))[0].status for n in range(3)] == ["ok"] * 3


def test_a_process_that_never_starts_again_fails_its_page_by_name(tmp_path: Path) -> None:
    with WorkerPool(MakePidReader(dies_until=(str(tmp_path), 0)), 1) as pool:
        pool._factory = MakePidReader(dies=True)
        os.kill(pool.pids[0], signal.SIGKILL)
        lost = pool.recognize(crops(20))[0]
        assert lost.status == "failed" and "SIGKILL" in str(lost.error)


def test_what_a_recognizer_raises_is_raised_here_and_costs_no_process(pool: WorkerPool) -> None:
    before = pool.pids
    with pytest.raises(GravityOCRError, match="KeyError: 'no such slot'"):
        pool.recognize(crops(14))
    assert pool.recognize(crops(20))[0].status == "ok" and pool.pids == before


def test_a_checkpoint_that_does_not_load_is_told_at_once() -> None:
    pool = WorkerPool(MakePidReader(fails=True), 2)
    with pytest.raises(CheckpointError, match=r"has no model\.safetensors"), pool:
        raise AssertionError("entered")
    assert pool.pids == []
    pool = WorkerPool(MakePidReader(dies=True), 1)
    with pytest.raises(GravityOCRError, match="SIGKILL"), pool:
        raise AssertionError("entered")


def test_closing_stops_what_is_read_and_leaves_no_process() -> None:
    failures: list[BaseException] = []

    def read() -> None:
        try:
            answer = pool.recognize(crops(15))
            failures.append(RuntimeError(answer[0].error))
        except GravityOCRError as error:
            failures.append(error)

    with WorkerPool(MakePidReader(), 1) as pool:
        pids = pool.pids
        threads = [threading.Thread(target=read) for _ in range(2)]  # one is read, one waits
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        started = time.monotonic()
    for thread in threads:
        thread.join(5)
    assert len(failures) == 2 and time.monotonic() - started < 5
    assert gone(pids)
    with pytest.raises(GravityOCRError, match="were stopped"):
        pool.recognize(crops(20))


def test_processes_end_with_a_parent_that_is_killed(repo_root: Path) -> None:
    script = (
        "import sys, threading, time\nfrom gravityocr.pipeline.worker_pool import WorkerPool\n"
        "from tests.unit.pipeline.pool_readers import MakePidReader\n"
        "from tests.unit.pipeline.test_worker_pool import crops\n"
        "if __name__ == '__main__':\n"
        "    with WorkerPool(MakePidReader(), 2) as pool:\n"
        "        threading.Thread(target=pool.recognize, args=[crops(15)], daemon=True).start()\n"  # one is busy
        "        time.sleep(0.5)\n"
        "        print(*pool.pids, flush=True)\n"
        "        time.sleep(60)\n"
    )
    path = os.pathsep.join(map(str, (repo_root / "src", repo_root)))
    environment = os.environ | {"PYTHONPATH": path}
    with subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.kill()
    assert len(pids) == 2 and gone(pids)


@pytest.mark.parametrize("n_workers", [0, 257])
def test_numbers_of_workers_have_limits(n_workers: int) -> None:
    with pytest.raises(ConfigError, match="choose 1 to 256"):
        WorkerPool(MakePidReader(), n_workers)
