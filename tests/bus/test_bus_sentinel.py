"""The bus follows Sentinel to a new master."""

import socket
import subprocess

import pytest
import redis

from hereabouts.bus.redis_bus import RedisBus
from hereabouts.bus.sealing import Sealer
from hereabouts.schemas.errors import BusUnavailable
from hereabouts.schemas.records import Role


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def reply(port, *command):
    """A command's reply; None while nobody answers."""
    try:
        with redis.Redis(port=port) as client:
            return client.execute_command(*command)
    except redis.RedisError:
        return None


@pytest.fixture
async def sentinel(tmp_path, redis_path, wait_until):
    """A master, a replica and one sentinel; yields its port and the master's process."""
    running = []

    def run(name, port, *options):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "server.conf").write_text("\n".join([f"port {port}", f"dir {folder}", 'save ""', *options]) + "\n")
        mode = ["--sentinel"] if name == "sentinel" else []
        running.append(
            subprocess.Popen(
                [str(redis_path), str(folder / "server.conf"), *mode],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        return running[-1]

    master, replica, watch = free_port(), free_port(), free_port()
    process = run("master", master)
    run("replica", replica, f"replicaof 127.0.0.1 {master}")
    # First, since a sentinel looks at a replica's state only every ten seconds, and an unsynced one is no candidate.
    await wait_until(
        lambda: (reply(replica, "INFO", "replication") or {}).get("master_link_status") == "up", "a synced replica"
    )
    run(
        "sentinel",
        watch,
        f"sentinel monitor main 127.0.0.1 {master} 1",
        "sentinel down-after-milliseconds main 500",
        "sentinel failover-timeout main 3000",
    )
    yield watch, process
    for each in running:
        each.kill()
        each.wait()


async def test_a_failover_is_a_new_epoch_on_the_new_master(sentinel, wait_until, make_ask):
    port, master = sentinel
    await wait_until(lambda: reply(port, "SENTINEL", "SLAVES", "main"), "the sentinel to know the replica")
    bus = RedisBus(f"redis+sentinel://127.0.0.1:{port}/main", Role.EDGE, Sealer({"k": bytes(32)}, "k"))
    got, epochs = [], []

    async def register(epoch):
        epochs.append(epoch)

    await bus.start(got.extend, on_new_epoch=register)
    try:
        await bus.send(bus.inbox, make_ask(body=b"before"))
        await wait_until(lambda: got, "a message")
        master.kill()
        await wait_until(lambda: epochs, "a new epoch on the new master")

        async def sent():
            try:
                return await bus.send(bus.inbox, make_ask(body=b"after"))
            except BusUnavailable:
                return None

        await wait_until(sent, "a message to be taken")
        await wait_until(lambda: got[-1].body == b"after", "the message")
        await wait_until(lambda: bus.problem() is None, "the bus to be well")
    finally:
        await bus.stop()
