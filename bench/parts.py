"""Parts of bench/run that are no row of its table: memory of idle connections, growth, latency at fixed rates, limits in Redis."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import time

from common import HERE, TOKEN_PATH, build_tool, free_port, load, run_tool

IDLE_CONNECTIONS = 10_000
OPEN = [1, 64, 512, 5_000, 10_000]
KEYS = [1, 10, 1_000]
SHARES = [25, 50, 75]


def raise_descriptors():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def say(text):
    print(text, file=sys.stderr, flush=True)


# Memory of idle connections


def idle(chosen, targets, _):
    """Private memory per kept connection that has had one answer, of the endpoint and of nginx."""
    attacker = build_tool(targets.folder, "attacker")
    rows = []
    for name, server in [("nginx", targets.nginx()), ("endpoint", targets.some_endpoint())]:
        before_resident, before = server.resident_kib(), server.private_kib()
        process = subprocess.Popen(
            ["taskset", "-c", str(chosen.load_cpu), attacker, str(server.port), "idle", str(IDLE_CONNECTIONS), "8", "4000"],
            stdout=subprocess.PIPE, text=True)
        most_resident, most = before_resident, before
        while process.poll() is None:
            most_resident, most = max(most_resident, server.resident_kib()), max(most, server.private_kib())
            time.sleep(0.2)
        found = json.loads(process.communicate()[0])
        if found["refused"] or found["open"] < 0.99 * IDLE_CONNECTIONS:
            sys.exit(f"{name}: not all connections stayed open: {found}")
        rows.append({"server": name, "private_bytes": (most - before) * 1024 / IDLE_CONNECTIONS,
                     "resident_bytes": (most_resident - before_resident) * 1024 / IDLE_CONNECTIONS, "before_mib": before_resident / 1024})
        say(f"idle {name}: {rows[-1]}")
    lines = [f"| {IDLE_CONNECTIONS:,} idle kept connections | private bytes each | resident bytes each | resident MiB before |", "| --- | --: | --: | --: |"]
    lines += [f"| {row['server']} | {row['private_bytes']:.0f} | {row['resident_bytes']:.0f} | {row['before_mib']:.1f} |" for row in rows]
    return {"idle": rows}, "\n".join(lines) + "\n"


# Limits in Redis

GENEROUS = "requests: 1000000, per_seconds: 1, burst: 1000000"
LIMITS = ("rate_limits: {{ store: {store}, per_address: {{ {rule} }}, per_session: {{ {rule} }}, per_end_user: {{ {rule} }}, all: {{ {rule} }} }}\n"
          "trusted_proxies: [127.0.0.1/32]")


def redis(chosen, targets, measure):
    """CPU per mint with all four limits, asked in two questions, in memory and in Redis on loopback, and the difference within each round."""
    port = free_port()
    process = subprocess.Popen(
        ["taskset", "-c", str(chosen.load_cpu), "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
         "--dir", str(targets.folder)], stdout=subprocess.DEVNULL)
    # It shares its CPU with the load, which would make it slower than any Redis of its own.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, process.pid, -15)
    targets.stack.callback(lambda: (process.terminate(), process.wait(10)))
    stores = {"memory": "memory", "Redis": f'"redis://127.0.0.1:{port}/0"'}
    # No four limits in one, so that what the decisions cost by themselves can be seen, too.
    mints = {"off": targets.mint("HS256")} | {
        name: targets.mint("HS256", "forwarded", kind=f"-{name}", limits=LIMITS.format(store=store, rule=GENEROUS)) for name, store in stores.items()}
    full = measure("memory", mints["memory"], 64, 2, chosen.load_cpu)["per_second"]
    paced, names, found, text = build_tool(targets.folder, "paced"), list(mints), {}, ""
    # Redis, load and stub share one CPU. At half of what the endpoint can do its own CPU time is that of a busy server, but the answers wait for
    # the load's CPU; at a fifth they wait for Redis alone.
    for share in (2, 5):
        rate, rows = full / share, []
        for number in range(chosen.rounds):
            row = {}
            for name in names if number % 2 == 0 else reversed(names):
                row[name] = beside_redis(chosen, name, mints[name], paced, rate, port)
            rows.append(row)
            say(f"{rate:,.0f}/s, round {number + 1}/{chosen.rounds} "
                + ", ".join(f"{name} {row[name]['cpu_us']:.1f} µs, p99 {row[name]['p99_ms']:.1f} ms" for name in names))
        found[f"one in {share}"] = rows
        text += redis_table(rows, names, rate) + "\n"
    alone = mints["Redis"][0].metrics().get("january_endpoint_limiter_local_decisions_total", 0)
    if alone > 0.01 * full * chosen.seconds * chosen.rounds * 0.7:
        say(f"NOT what it says: {alone:.0f} decisions were made without Redis, which did not answer in time")
    return {"redis": found, "decided_alone": alone}, text


def beside_redis(chosen, name, mint, paced, rate, port):
    """One measurement, and beside it what a round trip to Redis takes from the processor of the load."""
    server, method, path, tokens, *_ = mint
    probe = subprocess.Popen(
        ["taskset", "-c", str(chosen.load_cpu), sys.executable, __file__, str(port), str(chosen.seconds)], stdout=subprocess.PIPE, text=True)
    before, idle, began = server.cpu_microseconds(), idle_seconds(chosen.load_cpu), time.monotonic()
    figures = json.loads(run_tool(
        "taskset", "-c", str(chosen.load_cpu), paced, str(server.port), str(rate), str(chosen.seconds), "64", method, path, str(tokens),
        capture_output=True, text=True, env={**os.environ, "PACED_FORWARDED": "1"}).stdout)
    if figures["failed"] or set(figures["statuses"]) != {"201"}:
        sys.exit(f"{name}: not every request was answered well: {figures}")
    busy = 1 - (idle_seconds(chosen.load_cpu) - idle) / (time.monotonic() - began)
    trip = json.loads(probe.communicate(timeout=30)[0])
    return {
        "cpu_us": (server.cpu_microseconds() - before) / figures["answered"], "p50_ms": figures["p50"] / 1000, "p99_ms": figures["p99"] / 1000,
        "trip_p50_ms": trip["p50"], "trip_p99_ms": trip["p99"], "load_cpu_busy": busy}


def redis_table(rows, names, rate):
    def middle(name, key):
        return statistics.median(row[name][key] for row in rows)

    more = [row["Redis"]["cpu_us"] - row["memory"]["cpu_us"] for row in rows]
    lines = [f"| Four limits, 64 connections, {rate:,.0f}/s | CPU µs per mint | p50 ms | p99 ms | a round trip to Redis meanwhile: p50 ms | p99 ms "
             "| CPU of load and Redis busy, % |", "| --- | --: | --: | --: | --: | --: | --: |"]
    for name in names:
        times = " | ".join(f"{middle(name, key):.2f}" for key in ("p50_ms", "p99_ms", "trip_p50_ms", "trip_p99_ms"))
        lines.append(f"| {name} | {middle(name, 'cpu_us'):.1f} | {times} | {100 * middle(name, 'load_cpu_busy'):.0f} |")
    lines.append(f"| Redis less memory, in one round: median, least, most | {statistics.median(more):.1f}, {min(more):.1f}, {max(more):.1f} | | | | | |")
    return "\n".join(lines) + "\n"


def idle_seconds(cpu):
    for line in pathlib.Path("/proc/stat").read_text().splitlines():
        if line.startswith(f"cpu{cpu} "):
            return sum(map(int, line.split()[4:6])) / os.sysconf("SC_CLK_TCK")
    return 0


def trips(port, seconds):
    """Round trips of a small script to Redis, one every two milliseconds: what they take, in milliseconds."""
    script = b"return redis.call('TIME')[1]"
    command = b"*3\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n" % (len(script), script)
    took, end = [], time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (began := time.monotonic()) < end:
            connection.sendall(command)
            connection.recv(4096)
            took.append((time.monotonic() - began) * 1000)
            time.sleep(0.002)
    took.sort()
    return {"p50": took[len(took) // 2], "p99": took[len(took) * 99 // 100]}


# Growth

# What opening the connections costs is over by then: 10,000 of them take up to two seconds of the server's CPU.
WARM_SECONDS = 4
# A busy server answers the look late: the load has to last longer, because what it leaves behind when it ends is another thing.
AFTER_SECONDS = 3


def steady(name, target, connections, seconds, cpu):
    """CPU per mint once all connections are open and each has been used: between two looks at the endpoint's own counter, under a load that goes on."""
    server = target[0]

    def look():
        metrics = server.metrics()
        answers = {key: value for key, value in metrics.items() if key.startswith("january_endpoint_requests_total{") and 'route="token"' in key}
        return sum(answers.values()), sum(value for key, value in answers.items() if 'status="201"' in key), server.cpu_microseconds()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        figures = pool.submit(load, target, connections, WARM_SECONDS + seconds + AFTER_SECONDS, cpu)
        time.sleep(WARM_SECONDS)
        before = look()
        time.sleep(seconds)
        answered, minted, used = (after - value for after, value in zip(look(), before))
        errors = figures.result()
    # While 10,000 connections are opened at once some are refused for load; not in between.
    if minted == 0 or minted != answered or errors["socket_errors"]:
        sys.exit(f"{name}: not every request was answered well: {minted} of {answered} minted, {errors}")
    return used / minted


def growth(chosen, targets, _):
    """CPU per mint against the number of open connections, and against the number of keys in the JWK set. All connections are in use."""
    # Its limit of connections is 10,000; wrk's own come on top of what closes late.
    by_open = targets.mint("HS256", more="max_connections: 12000\n")
    by_keys = {count: targets.mint("RS256", keys=count) for count in KEYS}
    measured = {("open", count): [] for count in OPEN} | {("keys", count): [] for count in KEYS}
    for number in range(chosen.rounds):
        order = list(measured)
        for kind, count in order if number % 2 == 0 else reversed(order):
            target, connections = (by_open, count) if kind == "open" else (by_keys[count], 64)
            cpu = steady(f"{kind} {count}", target, connections, chosen.seconds, chosen.load_cpu)
            measured[kind, count].append(cpu)
            say(f"round {number + 1}/{chosen.rounds} {kind:5} {count:6}: {cpu:7.1f} µs CPU")
    medians = {key: statistics.median(values) for key, values in measured.items()}
    base = {"open": medians["open", 64], "keys": medians["keys", 1]}
    lines = ["| Grows | Number | CPU µs per mint | min–max | against 64 connections, 1 key |", "| --- | --: | --: | --: | --: |"]
    names = {"open": "open connections, all in use (HS256)", "keys": "keys in the JWK set (RS256)"}
    for (kind, count), value in medians.items():
        values = measured[kind, count]
        lines.append(f"| {names[kind]} | {count:,} | {value:.1f} | {min(values):.1f}–{max(values):.1f} | {value / base[kind]:.2f} |")
    series = [(names[kind], [(count, medians[kind, count], min(measured[kind, count]), max(measured[kind, count]))
                             for other, count in medians if other == kind]) for kind in names]
    (HERE / "out" / "growth.svg").write_text(plot("CPU microseconds per mint", series))
    say(f"written: {HERE}/out/growth.svg")
    record = [{"kind": kind, "count": count, "cpu_us": value, "rounds": measured[kind, count]} for (kind, count), value in medians.items()]
    return {"growth": record}, "\n".join(lines) + "\n"


COLOURS = ["#1f5fa8", "#b4541a", "#2e7d32"]


def plot(title, series, width=640, height=300):
    """A plain SVG: number on a logarithmic axis from left to right, value from zero upwards, a bar from least to most at each point."""
    import math
    left, right, top, bottom = 56, width - 16, 36, height - 64
    largest_x = max(point[0] for _, points in series for point in points)
    largest_y = max(point[3] for _, points in series for point in points) * 1.1
    step = next(step for step in (1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 5000) if largest_y / step <= 6)
    x = lambda value: left + (right - left) * (math.log10(value) / max(1, math.ceil(math.log10(largest_x))))
    y = lambda value: bottom - (bottom - top) * value / largest_y
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12" role="img">',
        f"<title>{title}</title>", f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{left}" y="20" font-size="14" fill="#222222">{title}</text>']
    for tick in range(0, int(largest_y // step) + 1):
        at = y(tick * step)
        lines.append(f'<line x1="{left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>')
        lines.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end" fill="#444444">{tick * step}</text>')
    for power in range(0, max(1, math.ceil(math.log10(largest_x))) + 1):
        lines.append(f'<text x="{x(10 ** power):.1f}" y="{bottom + 18}" text-anchor="middle" fill="#444444">{10 ** power:,}</text>')
    for index, (name, points) in enumerate(series):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{x(count):.1f},{y(value):.1f}" for count, value, *_ in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for count, value, low, high in points:
            lines.append(f'<line x1="{x(count):.1f}" x2="{x(count):.1f}" y1="{y(low):.1f}" y2="{y(high):.1f}" stroke="{colour}"/>')
            lines.append(f'<circle cx="{x(count):.1f}" cy="{y(value):.1f}" r="3.5" fill="{colour}"/>')
        lines.append(f'<rect x="{left + 270 * index}" y="{height - 30}" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{left + 18 + 270 * index}" y="{height - 20}" fill="#222222">{name}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


# Latency at fixed rates


def paced(chosen, targets, server, rate, tokens):
    output = subprocess.run(
        ["taskset", "-c", str(chosen.load_cpu), build_tool(targets.folder, "paced"), str(server.port), str(rate), str(chosen.seconds), "64", "POST",
         TOKEN_PATH, str(tokens or "-")], check=True, capture_output=True, text=True, timeout=chosen.seconds + 60).stdout
    return json.loads(output)


def latency(chosen, targets, _):
    """Percentiles at shares of each server's own maximum, every request counted from the time at which it was to be sent."""
    rows = []
    for name, target in [("nginx `proxy_pass`", targets.target("proxy")), ("mint, HS256 session", targets.mint("HS256")),
                         ("mint, RS256 session", targets.mint("RS256"))]:
        server, tokens = target[0], target[3]
        paced(chosen, targets, server, 0, tokens)
        most = statistics.median(found["answered"] / found["seconds"] for found in (paced(chosen, targets, server, 0, tokens) for _ in range(3)))
        for share in SHARES:
            rate = int(most * share / 100)
            found = [paced(chosen, targets, server, rate, tokens) for _ in range(chosen.rounds)]
            if any(one["failed"] or set(one["statuses"]) != {"201"} for one in found):
                sys.exit(f"{name} at {rate}/s: not every request was answered well: {found}")
            row = {"title": name, "share": share, "rate": rate, "maximum": most,
                   **{key: statistics.median(one[key] for one in found) / 1000 for key in ("p50", "p90", "p99", "p999", "max")}}
            rows.append(row)
            say(f"latency {name} {share} %: {row}")
    lines = ["| Work | of its maximum | requests/s | p50 ms | p90 ms | p99 ms | p99.9 ms | most ms |", "| --- | --: | --: | --: | --: | --: | --: | --: |"]
    lines += [f"| {row['title']} | {row['share']} % of {row['maximum']:,.0f} | {row['rate']:,} | {row['p50']:.2f} | {row['p90']:.2f} | {row['p99']:.2f} | "
              f"{row['p999']:.2f} | {row['max']:.2f} |" for row in rows]
    return {"latency": rows}, "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(json.dumps(trips(int(sys.argv[1]), float(sys.argv[2]))))
