"""What the scripts of this folder have in common: sessions, processes and their figures, checks, the endpoint in front of the stub."""

import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import pathlib
import platform
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
TICK = 1_000_000 / os.sysconf("SC_CLK_TCK")
TOKEN_PATH = "/january/client-token"
START_SECONDS = 15
STOP_SECONDS = 10


# Sessions


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signing_inputs(algorithm, count, key_id=None):
    fields = {"alg": algorithm, "typ": "JWT", **({"kid": key_id} if key_id else {})}
    header = base64url(json.dumps(fields, separators=(",", ":")).encode())
    now = int(time.time())
    for index in range(count):
        claims = {
            "iss": "https://login.bench.example", "aud": "bench-api", "sub": f"user-{index:06d}", "iat": now - 60,
            "nbf": now - 60, "exp": now + 86_400, "sid": f"session-{index:06d}", "plan": "pro",
        }
        yield header + "." + base64url(json.dumps(claims, separators=(",", ":")).encode())


def run_tool(*command, **more):
    return subprocess.run(command, check=True, timeout=300, **more)


def build_tool(folder, name, *libraries):
    """A C program of this folder, compiled once for a working folder."""
    program = folder / name
    if not program.exists():
        run_tool("gcc", "-O2", "-o", str(program), str(HERE / f"{name}.c"), *libraries)
    return str(program)


def write_sessions(folder, algorithm, count, jwks_keys=0):
    """The token file of one kind, and the lines of the verifier that accepts it: with `jwks_keys`, a set of so many keys."""
    tokens = folder / f"{algorithm}{f'-{jwks_keys}' if jwks_keys else ''}.tokens"
    inputs = list(signing_inputs(algorithm, count, "signer" if jwks_keys else None))
    if algorithm == "HS256":
        secret = base64url(os.urandom(48))
        (folder / "hmac_secret").write_text(secret + "\n")
        (folder / "hmac_secret").chmod(0o600)
        lines = [line + "." + base64url(hmac.digest(secret.encode(), line.encode(), hashlib.sha256)) for line in inputs]
        tokens.write_text("\n".join(lines) + "\n")
        return tokens, f"hmac_secret_file: {folder}/hmac_secret"
    private, public = folder / f"{algorithm}.pem", folder / f"{algorithm}.pub.pem"
    if not private.exists():
        kind = ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"] if algorithm == "RS256" else ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        run_tool("openssl", "genpkey", "-algorithm", *kind, "-out", str(private), stderr=subprocess.DEVNULL)
        run_tool("openssl", "pkey", "-in", str(private), "-pubout", "-out", str(public))
    with open(tokens, "wb") as output:
        run_tool(build_tool(folder, "sign", "-lcrypto"), str(private), input=("\n".join(inputs) + "\n").encode(), stdout=output)
    if not jwks_keys:
        return tokens, f"public_key_files: [{public}]"
    key_set = folder / f"jwks-{jwks_keys}.json"
    key_set.write_text(json.dumps({"keys": [rsa_jwk("signer", rsa_modulus(private))] + [
        rsa_jwk(f"other-{index}", os.urandom(255).join([b"\xc5", b"\x01"])) for index in range(jwks_keys - 1)]}))
    return tokens, f"jwks_file: {key_set}"


def rsa_modulus(private):
    text = run_tool("openssl", "rsa", "-in", str(private), "-noout", "-modulus", capture_output=True, text=True).stdout
    return bytes.fromhex(text.strip().partition("=")[2])


def rsa_jwk(key_id, modulus):
    return {"kty": "RSA", "kid": key_id, "use": "sig", "alg": "RS256", "n": base64url(modulus), "e": "AQAB"}


# Checks


class Checks:
    def __init__(self):
        self.failures = []

    def that(self, holds, what):
        print(f"  {'ok ' if holds else 'NOT'} {what}", flush=True)
        if not holds:
            self.failures.append(what)


# Processes


class Server:
    """One server on the server's CPU. Its CPU time is that of the process and of all below it."""

    def __init__(self, stack, name, command, port, cpu, folder, environment=None):
        self.name, self.port = name, port
        self.log = folder / f"{name}.log"
        output = stack.enter_context(open(self.log, "wb"))
        self.process = subprocess.Popen(
            ["taskset", "-c", str(cpu), *command], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env={**os.environ, "SWIFT_BACKTRACE": "enable=no", **(environment or {})})
        stack.callback(self.stop)

    def stop(self):
        if self.process.poll() is not None:
            return
        # A second signal skips the drain.
        for signal_number in [signal.SIGTERM, signal.SIGTERM, signal.SIGKILL]:
            self.process.send_signal(signal_number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1 if signal_number == signal.SIGTERM else STOP_SECONDS)
                return

    def wait_until_answering(self, method, path, status, token=None):
        deadline = time.monotonic() + START_SECONDS
        last = "nothing"
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
                connection.request(method, path, headers={"Authorization": f"Bearer {token}"} if token else {})
                answer = connection.getresponse()
                body = answer.read()
                connection.close()
                if answer.status == status:
                    return
                last = f"{answer.status} {body[:300]!r}"
            except OSError as error:
                last = str(error)
            time.sleep(0.1)
        sys.exit(f"{self.name}: {method} {path} did not answer {status}; last: {last}\n{self.log.read_text(errors='replace')[-3000:]}")

    def pids(self):
        found, queue = [], [self.process.pid]
        while queue:
            pid = queue.pop()
            found.append(pid)
            with contextlib.suppress(OSError):
                for task in os.listdir(f"/proc/{pid}/task"):
                    queue += map(int, pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split())
        return found

    def cpu_microseconds(self):
        total = 0
        for pid in self.pids():
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total * TICK

    def _sum(self, file, name):
        """Of all processes, in KiB or by number, as the line of that name says."""
        total = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
                    if line.startswith(name):
                        total += int(line.split()[1])
        return total

    def resident_kib(self):
        return self._sum("status", "VmRSS:")

    def resident_mib(self):
        return self.resident_kib() / 1024

    def private_kib(self):
        return self._sum("smaps_rollup", "Private_")

    def threads(self):
        return self._sum("status", "Threads:")

    def descriptors(self):
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self.pids())

    def metrics(self):
        """The metrics page as name with labels -> value; of an endpoint that has a management listener."""
        connection = http.client.HTTPConnection("127.0.0.1", self.management, timeout=5)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return {name: float(value) for name, _, value in
                (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_stub(stack, folder, cpu):
    return Stub(stack, folder, cpu).port


class Stub:
    """January's side. With a delay, every answer takes so long, however many are asked for at once."""

    def __init__(self, stack, folder, cpu, delay_ms=0):
        self.delay_file = folder / "stub-delay"
        self.delay_file.write_text(str(delay_ms))
        self.process = subprocess.Popen(
            ["taskset", "-c", str(cpu), build_tool(folder, "stub", "-lssl", "-lcrypto"), "0"], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "STUB_DELAY_FILE": str(self.delay_file)})
        stack.callback(lambda: (self.process.kill(), self.process.wait(STOP_SECONDS)))
        self.port = int(self.process.stdout.readline())

    def delay(self, milliseconds):
        self.delay_file.write_text(str(milliseconds))
        self.process.send_signal(signal.SIGHUP)

    def outage(self, begins):
        """Every answer is a 503 at once, until it is over."""
        self.process.send_signal(signal.SIGUSR1 if begins else signal.SIGUSR2)

    def hang(self, begins):
        self.process.send_signal(signal.SIGSTOP if begins else signal.SIGCONT)


ENDPOINT = """
listen: "127.0.0.1:{port}"
management: {{ listen: "127.0.0.1:{management}" }}
january:
  api_key_file: {folder}/api_key
  base_url: {upstream}
{january}sessions:
  verifiers:
    - type: jwt
      issuer: https://login.bench.example
      audience: bench-api
      algorithms: [{algorithm}]
      {key}
features: [food_search, food_diary]
{limits}
state: none
http: {{ {http} }}
log: {{ level: warning, format: json, requests: none }}
{more}"""


NO_LIMITS = "rate_limits: { per_address: false, per_session: false, per_end_user: false, all: false }"


def start_endpoint(stack, folder, stub, cpu, binary, algorithm, key, tokens, name=None, http="loops: 1", more="", january="",
                   upstream=None, shell="", environment=None, limits=NO_LIMITS, port=None, mints=True):
    """The endpoint in front of the stub's port (or of `upstream`), once it mints (or not: `mints`). `shell`: what to run first, such as `ulimit -n 400`."""
    port, management = port or free_port(), free_port()
    name = name or f"endpoint-{algorithm.lower()}"
    configuration = folder / f"{name}.yaml"
    configuration.write_text(ENDPOINT.format(
        folder=folder, port=port, management=management, upstream=upstream or f"http://127.0.0.1:{stub}", algorithm=algorithm, key=key,
        http=http, more=more, limits=limits, january="".join(f"  {line}\n" for line in january.splitlines())))
    command = [binary, "serve", "--config", str(configuration)]
    if shell:
        command = ["bash", "-c", f'{shell} && exec "$0" "$@"', *command]
    server = Server(stack, name, command, port, cpu, folder, environment)
    server.management = management
    with open(tokens) as file:
        if mints:
            server.wait_until_answering("POST", TOKEN_PATH, 201, token=file.readline().strip())
    server.wait_until_answering("GET", "/healthz", 200)
    return server


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    version = lambda *command: (subprocess.run(command, capture_output=True, text=True, timeout=20).stdout or "?").splitlines()[0]
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": platform.release(), "openssl": version("openssl", "version")}


def load(target, connections, seconds, cpu):
    """One wrk run. Returns its own figures."""
    server, method, path, tokens, *more = target
    environment = {**os.environ, "BENCH_METHOD": method, "BENCH_PATH": path, "BENCH_TOKENS": str(tokens or ""),
                   "BENCH_FRESH": "1" if "fresh" in more else "", "BENCH_FORWARDED": "1" if "forwarded" in more else ""}
    output = subprocess.run(
        ["taskset", "-c", str(cpu), "wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", "--timeout", "10s",
         "-s", str(HERE / "load.lua"), f"http://127.0.0.1:{server.port}"],
        env=environment, check=True, timeout=seconds + 60, capture_output=True, text=True).stdout
    for line in output.splitlines():
        if line.startswith("BENCH "):
            return json.loads(line[6:])
    sys.exit(f"wrk said nothing: {output}")
