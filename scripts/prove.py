#!/usr/bin/env python3
"""Random interleavings of mints, revocations and lifts over real processes, and what must be true of them afterwards.

One interleaving is one end user: some mints, revocations with random blocks, a lift perhaps, each at a random moment and a random replica, while
January (the simulator) is slow, refuses, breaks connections before and after its work, and replicas and Redis die by SIGKILL and come back.
Afterwards the simulator's token table and ledger and what the clients were told are held against each other:

  1  after a 200 no token is alive that was delivered or withheld before it (block user: at all; sessions, none: asked for before the revocation;
     there also those whose answer was lost)
  2  a token whose answer was lost is dead 90 s after a block
  3  every revocation that was acknowledged (200, 202) is known and complete in the end, and its block holds on every replica
  4  after a lift everybody mints again, and no token minted after a 200 or a lift is hit by an older sweep
  5  every token is delivered, withheld or lost, once, and what is lost has a reason

Prints the seed; the same seed asks for the same things at the same planned moments. Exit 0, or 1 with what was broken.
"""
import argparse
import asyncio
import base64
import collections
import hashlib
import hmac
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone

KEY = 'sk-simulator-development-only-0000000000000000'
TOKEN = 'management-token-of-at-least-32-characters'
SECRET = 'a-secret-of-the-sessions-in-this-proof-0123456789'
ISSUER, AUDIENCE = 'https://issuer.example', 'app'
STRENGTH = {'none': 0, 'sessions': 1, 'user': 2}
LATE = 90.0


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def instant(text):
    return datetime.strptime(text, '%Y-%m-%dT%H:%M:%S.%fZ').replace(tzinfo=timezone.utc).timestamp() if text else None


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=')


HEADER = encoded(b'{"alg":"HS256","typ":"JWT"}')


def session(user, began):
    now = int(time.time())
    claims = {'iss': ISSUER, 'aud': AUDIENCE, 'sub': user, 'iat': now, 'exp': now + 3600, 'auth_time': began}
    text = HEADER + b'.' + encoded(json.dumps(claims).encode())
    return (text + b'.' + encoded(hmac.new(SECRET.encode(), text, hashlib.sha256).digest())).decode()


class Gone(Exception):
    """No answer: the process was not there, or died."""


async def http(port, method, path, fields=(), body=b'', timeout=30):
    lines = ['%s %s HTTP/1.1' % (method, path), 'Host: localhost', 'Connection: close', 'Content-Length: %d' % len(body), *fields]
    writer = None
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection('127.0.0.1', port, limit=1 << 26)
            writer.write(('\r\n'.join(lines) + '\r\n\r\n').encode() + body)
            answer = await reader.read(-1)
    except (OSError, TimeoutError) as error:
        raise Gone(str(error))
    finally:
        if writer:
            writer.close()
    head, separator, content = answer.partition(b'\r\n\r\n')
    if not separator or not head.startswith(b'HTTP/1.1 '):
        raise Gone('cut')
    lines = head.decode('latin1').split('\r\n')
    found = {line.split(':', 1)[0].lower(): line.split(':', 1)[1].strip() for line in lines[1:]}
    if 'chunked' in found.get('transfer-encoding', ''):
        content = dechunked(content)
    elif len(content) < int(found.get('content-length', 0)):
        raise Gone('cut')
    return int(head[9:12]), found, content


def dechunked(data):
    out = b''
    while True:
        line, _, data = data.partition(b'\r\n')
        size = int(line.split(b';')[0] or b'0', 16)
        if size == 0:
            return out
        out, data = out + data[:size], data[size + 2:]


class Process:
    """One program, ended by its id."""

    def __init__(self, arguments, log, environment=None):
        self.arguments, self.log = arguments, log
        self.environment = dict(os.environ, SWIFT_BACKTRACE='enable=no', **(environment or {}))
        for name in ('JANUARY_API_KEY', 'CONFIG_FILE', 'LISTEN', 'PORT', 'STATE', 'REDIS_URL'):
            self.environment.pop(name, None)
        self.start()

    def start(self):
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class World:
    def __init__(self, options):
        self.options = options
        self.random = random.Random('%s world' % options.seed)
        self.folder = tempfile.mkdtemp(prefix='january-prove-')
        self.attempts = collections.defaultdict(list)     # user -> mints
        self.requests = collections.defaultdict(list)     # user -> revocations
        self.lifts = collections.defaultdict(list)        # user -> (asked, answered)
        self.kills = []
        self.ledger = {}
        self.ledger_from = 0
        self.broken = []
        self.done = 0
        self.users = []
        for name, text in (('api_key', KEY), ('token', TOKEN), ('secret', SECRET)):
            with open(os.open(os.path.join(self.folder, name), os.O_CREAT | os.O_WRONLY, 0o600), 'w') as file:
                file.write(text)
        binary = lambda name: os.path.join(options.binaries, name)
        self.january = free_port()
        self.simulator = Process([binary('january-simulator'), '--listen', '127.0.0.1:%d' % self.january], self.path('simulator.log'))
        self.redis = None
        state = 'sqlite:state/state.db'
        if options.state == 'redis':
            self.redis_port = free_port()
            os.mkdir(self.path('redis'))
            self.redis = Process(
                [options.redis_server, '--bind', '127.0.0.1', '--port', str(self.redis_port), '--dir', self.path('redis'), '--save', '',
                 '--appendonly', 'yes', '--appendfsync', options.appendfsync, '--logfile', self.path('redis.log')], self.path('redis.out'))
            state = 'redis://127.0.0.1:%d' % self.redis_port
            asyncio.run(self.listening(self.redis_port))
        self.ports, self.managements, self.replicas = [], [], []
        for index in range(3 if options.state == 'redis' else 1):
            public, management = free_port(), free_port()
            with open(self.path('replica-%d.yaml' % index), 'w') as file:
                file.write('''listen: "127.0.0.1:%d"
management: { listen: "127.0.0.1:%d", token_files: [token] }
january: { api_key_file: api_key, base_url: "http://127.0.0.1:%d", budget_seconds: 3 }
sessions:
  verifiers:
    - { type: jwt, issuer: %s, audience: %s, hmac_secret_file: secret, algorithms: [HS256] }
features: [food_search]
rate_limits: { per_address: false, per_session: false, per_end_user: false, all: false }
state: "%s"
http: { loops: 1 }
drain: { delay_seconds: 0, timeout_seconds: 5 }
''' % (public, management, self.january, ISSUER, AUDIENCE, state))
            self.ports.append(public)
            self.managements.append(management)
            self.replicas.append(Process(
                [binary('january-token-endpoint'), 'serve', '--config', self.path('replica-%d.yaml' % index)],
                self.path('replica-%d.log' % index)))

    def path(self, name):
        return os.path.join(self.folder, name)

    def end(self):
        for process in [*self.replicas, self.redis, self.simulator]:
            if process:
                process.kill()
        if not self.broken:
            shutil.rmtree(self.folder, ignore_errors=True)

    async def listening(self, port):
        for _ in range(1200):
            try:
                _, writer = await asyncio.open_connection('127.0.0.1', port)
                writer.close()
                return
            except OSError:
                await asyncio.sleep(0.05)
        sys.exit('nothing listens on %d: see %s' % (port, self.folder))

    async def ready(self, index):
        for _ in range(1200):
            try:
                if (await http(self.managements[index], 'GET', '/readyz'))[0] == 200:
                    return
            except Gone:
                pass
            await asyncio.sleep(0.05)
        sys.exit('replica %d is not ready: see %s' % (index, self.folder))

    # What is asked

    async def control(self, method, path, body=None):
        status, _, content = await http(
            self.january, method, '/control/' + path, body=json.dumps(body).encode() if body is not None else b'', timeout=60)
        if status >= 300:
            sys.exit('%s %s: %d %s' % (method, path, status, content))
        return json.loads(content)

    async def manage(self, index, method, path, body=None):
        status, _, content = await http(
            self.managements[index], method, path, ['Authorization: Bearer ' + TOKEN, 'Content-Type: application/json'],
            json.dumps(body).encode() if body is not None else b'')
        try:
            return status, json.loads(content)
        except ValueError:
            return status, {}

    async def mint(self, user, index, began):
        attempt = {'asked': time.time(), 'replica': index, 'status': 0, 'code': '', 'january': None, 'token': None}
        self.attempts[user].append(attempt)
        try:
            status, fields, content = await http(
                self.ports[index], 'POST', '/january/client-token', ['Authorization: Bearer ' + session(user, began)])
            answer = json.loads(content)
            attempt.update(status=status, code=answer.get('code', ''), january=fields.get('january-request-id'), token=answer.get('token'))
        except Gone:
            pass
        attempt['answered'] = time.time()
        return attempt

    async def revoke(self, user, index, block):
        request = {'asked': time.time(), 'block': block, 'status': 0, 'id': None}
        self.requests[user].append(request)
        try:
            status, answer = await self.manage(
                index, 'POST', '/january/client-token-revocations', {'end_user_id': user, 'block': block})
            request.update(status=status, id=answer.get('id'))
        except Gone:
            pass
        request['answered'] = time.time()
        return request

    async def acknowledged(self, user, rng, block):
        """Asks until it is promised, at another replica each time."""
        for _ in range(200):
            request = await self.revoke(user, rng.randrange(len(self.ports)), block)
            if request['status'] in (200, 202):
                return request
            await asyncio.sleep(0.2)
        self.violation(user, 'a revocation was never acknowledged: %s' % request)
        return request

    async def free(self, user, rng):
        """Lifts until there is no fence and no pending work."""
        asked = time.time()
        self.lifts[user].append([asked, None])
        for _ in range(1200):
            try:
                index = rng.randrange(len(self.ports))
                status, answer = await self.manage(index, 'DELETE', '/january/end-users/%s/block' % user)
                if status in (200, 202) and not answer['pending'] and answer['blocked'] == 'none':
                    self.lifts[user][-1][1] = time.time()
                    return True
            except Gone:
                pass
            await asyncio.sleep(0.25)
        self.violation(user, 'a lift never took effect')
        return False

    def violation(self, user, text):
        if len(self.broken) < 50:
            print('BROKEN %s: %s' % (user, text), flush=True)
        self.broken.append((user, text))

    # One interleaving

    async def interleaving(self, number):
        rng = random.Random('%s %d' % (self.options.seed, number))
        user = 'u%d' % number
        self.users.append(user)
        began = int(time.time()) - 1000
        replicas = len(self.ports)
        plan = []
        for _ in range(rng.randrange(3)):
            await self.mint(user, rng.randrange(replicas), began)
        for _ in range(rng.randint(1, 4)):
            plan.append(self.later(rng.random() * 0.5, self.mint, user, rng.randrange(replicas), began))
        blocks = [rng.choice(['user', 'user', 'sessions', 'none']) for _ in range(rng.choice([1, 1, 2]))]
        for block in blocks:
            plan.append(self.later(
                rng.random() * 0.5, self.acknowledged, user, random.Random(rng.random()), block))
        lifts_early = rng.random() < 0.1
        if lifts_early:
            plan.append(self.later(0.2 + rng.random() * 0.5, self.free, user, random.Random(rng.random())))
        await asyncio.gather(*plan)
        strictest = max(blocks, key=STRENGTH.get)
        lifts = rng.random() < 0.4
        if not lifts_early:
            attempt = await self.mint(user, rng.randrange(replicas), began)
            if attempt['token'] and strictest != 'none':
                self.violation(user, 'a token was delivered against a block %s: %s' % (strictest, attempt))
        if lifts or lifts_early:
            if await self.free(user, rng):
                await self.mints_again(user, rng, began)
        elif strictest == 'sessions' and rng.random() < 0.5:
            await self.mints_again(user, rng, int(time.time()) + 2)
        self.done += 1

    async def later(self, delay, work, *arguments):
        await asyncio.sleep(delay)
        return await work(*arguments)

    async def mints_again(self, user, rng, began):
        for _ in range(600):
            attempt = await self.mint(user, rng.randrange(len(self.ports)), began)
            if attempt['token']:
                attempt['must_live'] = True
                return
            if attempt['status'] in (401, 403):
                return self.violation(user, 'locked out: %s' % attempt)
            await asyncio.sleep(0.3)
        self.violation(user, 'locked out: %s' % attempt)

    # What goes wrong

    async def add_faults(self):
        rng = self.random
        def fault(operation, probability, **more):
            return {'operation': operation, 'times': None, 'probability': probability, 'seed': rng.randrange(1 << 31), **more}
        rules = [
            fault('mint', 0.03, disruption='reset_after_commit', delay_before_commit_ms=60),
            fault('mint', 0.02, disruption='close_before_commit'),
            fault('mint', 0.01, disruption='hang_after_commit'),
            fault('mint', 0.03, status=503, code='service_unavailable'),
            fault('mint', 0.2, delay_before_commit_ms=60), fault('mint', 0.2, delay_before_commit_ms=300),
            fault('mint', 0.3, delay_ms=50), fault('mint', 0.3, delay_ms=350), fault('mint', 0.05, delay_ms=1500),
            fault('revoke', 0.06, status=503, code='service_unavailable'),
            fault('revoke', 0.04, disruption='reset_after_commit'), fault('revoke', 0.04, disruption='reset_before_commit'),
            fault('revoke', 0.05, revocation_stops_after=1),
            fault('revoke', 0.3, delay_before_commit_ms=80), fault('revoke', 0.3, delay_ms=120), fault('revoke', 0.1, delay_ms=600),
        ]
        for rule in rules:
            await self.control('POST', 'faults', rule)
        if self.options.sabotage == 'sweeps':
            await self.control('DELETE', 'faults')
            # January says it is done, and has done nothing.
            await self.control('POST', 'faults', {
                'operation': 'revoke', 'times': None, 'status': 200, 'location': 'https://elsewhere.invalid/',
                'body': '{"revoked_count":0}'})

    async def kill_some(self):
        total, kills = self.options.interleavings, self.options.kills
        moments = sorted(self.random.random() * total * 0.95 for _ in range(kills))
        for number, moment in enumerate(moments):
            while self.done < moment:
                await asyncio.sleep(0.02)
            await asyncio.sleep(self.random.random() * 0.3)
            if self.redis and number % 10 == 4:
                self.kills.append(time.time())
                self.redis.kill()
                await asyncio.sleep(self.random.random() * 0.5)
                self.redis.start()
                await self.listening(self.redis_port)
                self.kills.append(time.time())
            else:
                index = self.random.randrange(len(self.replicas))
                self.kills.append(time.time())
                self.replicas[index].kill()
                await asyncio.sleep(self.random.random() * 0.5)
                self.replicas[index].start()
                await self.ready(index)

    async def sabotage(self):
        """Breaks a rule from outside, to see that it is found."""
        while True:
            await asyncio.sleep(0.2)
            if self.options.sabotage == 'fences':
                script = "for _, k in ipairs(redis.call('KEYS', 'january-endpoint:{state}:user:*')) do redis.call('HDEL', k, 'block', 'pending') end"
                process = await asyncio.create_subprocess_exec(
                    'redis-cli', '-p', str(self.redis_port), 'EVAL', script, '0', stdout=asyncio.subprocess.DEVNULL)
                await process.wait()

    async def read_ledger(self):
        page = await self.control('GET', 'ledger?after=%d&limit=10000' % self.ledger_from)
        first_pending = None
        for entry in page['requests']:
            self.ledger[entry['number']] = {
                name: entry.get(name) for name in ('operation', 'outcome', 'status', 'committed', 'request_id', 'body')}
            self.ledger[entry['number']]['received'] = instant(entry['received'])
            if entry['outcome'] == 'pending' and first_pending is None:
                first_pending = entry['number']
        if page['requests']:
            self.ledger_from = (first_pending or page['requests'][-1]['number'] + 1) - 1

    async def follow_ledger(self):
        while True:
            await asyncio.sleep(1)
            await self.read_ledger()

    # The whole

    async def run(self):
        await self.listening(self.january)
        for index in range(len(self.replicas)):
            await self.ready(index)
        await self.add_faults()
        follower = asyncio.create_task(self.follow_ledger())
        saboteur = asyncio.create_task(self.sabotage())
        killer = asyncio.create_task(self.kill_some())
        began = time.time()
        numbers = iter(range(self.options.interleavings))
        async def worker():
            for number in numbers:
                try:
                    await self.interleaving(number)
                except Exception as error:
                    self.violation('u%d' % number, 'the proof itself failed: %r' % error)
                    self.done += 1
        async def progress():
            while True:
                await asyncio.sleep(20)
                print('  %s: %d interleavings, %d kills, %d s' % (
                    self.options.state, self.done, len(self.kills), time.time() - began), flush=True)
        teller = asyncio.create_task(progress())
        await asyncio.gather(*[worker() for _ in range(self.options.workers)])
        await killer
        teller.cancel()
        await self.control('DELETE', 'faults')
        saboteur.cancel()
        took = time.time() - began
        last = max(r['answered'] for user in self.users for r in self.requests[user])
        await self.nothing_pending()
        if not self.options.no_late:
            # The late sweeps, and what a replica that died held on to.
            await asyncio.sleep(max(0, last + LATE + 5 - time.time()))
        await asyncio.sleep(1)
        follower.cancel()
        await self.read_ledger()
        await self.check()
        return took

    async def nothing_pending(self):
        end = time.time() + 150
        answer = None
        while time.time() < end:
            try:
                status, answer = await self.manage(0, 'GET', '/january/client-token-revocations?status=pending&limit=200')
                if status == 200 and not answer['items']:
                    return
            except Gone:
                pass
            await asyncio.sleep(0.5)
        self.violation('-', 'still pending: %s' % answer)

    async def check(self):
        figures = collections.Counter()
        sweeps = collections.defaultdict(list)
        for entry in self.ledger.values():
            if entry['operation'] == 'revoke':
                user = json.loads(entry['body'] or '{}').get('end_user_id')
                sweeps[user].append(entry)
                figures['sweeps'] += 1
        for user in self.users:
            await self.check_user(user, figures, sweeps[user])
        self.figures = figures

    async def check_user(self, user, figures, sweeps):
        minted = (await self.control('GET', 'tokens?end_user_id=' + user))['minted']
        delivered = {a['token']: a for a in self.attempts[user] if a['token']}
        withheld = {a['january'] for a in self.attempts[user] if a['january'] and not a['token']}
        lost_attempts = [a for a in self.attempts[user] if not a['token'] and not (a['january'])]
        lost = 0
        tokens = []
        for token in minted:
            entry = self.ledger.get(token['request'])
            kind = 'lost'
            if token['token'] in delivered:
                kind = 'delivered'
            elif entry and entry['request_id'] in withheld:
                kind = 'withheld'
            else:
                lost += 1
            figures[kind] += 1
            tokens.append({'kind': kind, 'issued': instant(token['issued']), 'revoked': instant(token['revoked']), 'token': token['token']})
        figures['minted'] += len(minted)
        figures['mints asked'] += len(self.attempts[user])
        unknown = set(delivered) - {t['token'] for t in minted}
        if unknown:
            self.violation(user, 'delivered and never minted')
        if lost > len(lost_attempts):
            self.violation(user, '%d tokens are neither delivered nor withheld, and only %d mints got no answer' % (lost, len(lost_attempts)))
        first_lift = min((lift[0] for lift in self.lifts[user]), default=float('inf'))
        for request in self.requests[user]:
            figures['revocations asked'] += 1
            figures['acknowledged %d' % request['status']] += 1
            if request['status'] in (200, 202):
                await self.check_acknowledged(user, request)
            if request['status'] == 200:
                self.check_promise(user, request, tokens, first_lift)
        self.check_late(user, tokens, first_lift, sweeps, figures)
        for attempt in self.attempts[user]:
            if not attempt.get('must_live'):
                continue
            token = next((t for t in tokens if t['token'] == attempt['token']), None)
            if token and token['revoked'] and not any(r['asked'] <= token['revoked'] and r['answered'] > attempt['asked'] for r in self.requests[user]):
                self.violation(user, 'a token minted afterwards was hit by an older sweep: %s' % token)
            figures['minted after a lift'] += 1

    async def check_acknowledged(self, user, request):
        status, answer = await self.manage(0, 'GET', '/january/client-token-revocations/%s' % request['id'])
        if status != 200 or answer.get('status') != 'complete':
            self.violation(user, 'acknowledged and lost: %s %s' % (request, answer))
        strictest = max((r for r in self.requests[user] if r['status'] in (200, 202)), key=lambda r: STRENGTH[r['block']])['block']
        if not self.lifts[user] and strictest == 'user' and request is self.requests[user][-1]:
            for index in range(len(self.ports)):
                attempt = await self.mint(user, index, int(time.time()) + 5)
                if attempt['code'] != 'access_revoked':
                    self.violation(user, 'the block does not hold on replica %d: %s' % (index, attempt))

    def check_promise(self, user, request, tokens, first_lift):
        for token in tokens:
            is_dead = token['revoked'] and token['revoked'] <= request['answered'] + 0.001
            if is_dead:
                continue
            if request['block'] == 'user':
                if token['kind'] != 'lost' and token['issued'] < min(request['answered'], first_lift):
                    self.violation(user, 'alive after a 200: %s %s' % (request, token))
            elif token['issued'] < min(request['asked'], first_lift):
                self.violation(user, 'alive after a 200: %s %s' % (request, token))

    def check_late(self, user, tokens, first_lift, sweeps, figures):
        blocks = [r for r in self.requests[user] if r['status'] in (200, 202) and r['block'] == 'user']
        if self.options.no_late or not blocks or first_lift < float('inf'):
            return
        last = max(r['answered'] for r in self.requests[user])
        for token in tokens:
            if token['kind'] == 'lost' and token['issued'] < last:
                figures['lost, then swept'] += 1
                dead = token['revoked'] or float('inf')
                limit = last + LATE
                # Whoever was to do it had died, or January refused.
                if any(last + 55 < kill < limit for kill in self.kills):
                    limit += 30
                if any(e['status'] != 200 and last + 70 < e['received'] < limit for e in sweeps):
                    limit += 30
                if dead > limit:
                    self.violation(user, 'alive %d s after a block: %s' % (LATE, token))
        for token in tokens:
            if token['kind'] != 'lost' and not token['revoked']:
                self.violation(user, 'alive in the end: %s' % token)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--seed', type=int, default=None)
    parser.add_argument('--interleavings', type=int, default=500)
    parser.add_argument('--kills', type=int, default=8)
    parser.add_argument('--workers', type=int, default=80)
    parser.add_argument('--state', choices=['redis', 'sqlite'], default='redis')
    parser.add_argument('--redis-server', default='redis-server', help='another one, such as one that has WAITAOF')
    parser.add_argument('--appendfsync', default='always')
    parser.add_argument('--no-late', action='store_true', help='do not wait for the sweeps 75 s after a block')
    parser.add_argument('--sabotage', choices=['fences', 'sweeps'], help='break a rule from outside: the run has to fail')
    parser.add_argument('--binaries', default=os.environ.get('BINARIES', '.build/release'))
    options = parser.parse_args()
    if options.state == 'redis' and not shutil.which(options.redis_server):
        print('SKIPPED: redis-server is not installed')
        return 0
    options.seed = options.seed if options.seed is not None else random.randrange(1 << 31)
    print('seed %d: %d interleavings, %d kills, state %s' % (options.seed, options.interleavings, options.kills, options.state), flush=True)
    world = World(options)
    try:
        took = asyncio.run(world.run())
    finally:
        world.end()
    f = world.figures
    print('%s: ' % options.state + ', '.join('%s %d' % item for item in sorted(f.items())))
    print('%s: minted %d = delivered %d + withheld %d + lost %d; %.0f s of interleavings, %d kills' % (
        options.state, f['minted'], f['delivered'], f['withheld'], f['lost'], took, options.kills))
    if world.broken:
        print('%s: BROKEN: %d, seed %d, logs in %s' % (options.state, len(world.broken), options.seed, world.folder))
        return 1
    print('%s: no promise was broken (seed %d)' % (options.state, options.seed))
    return 0


if __name__ == '__main__':
    sys.exit(main())
