#!/usr/bin/env python3
"""Runs the shared HTTP and JWT corpora through the real endpoint, in front of the real simulator.

usage: corpora.py CORPORA [--only http|jwt] [--verbose]

HTTP gate: accept, close, MUST and LIMIT 100 %, SHOULD 98 %, STRICT 95 %. JWT gate: every class as expected ("policy" may be either, but
never a 5xx). The endpoint has to be alive at the end of each.
"""
import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

ISSUER, AUDIENCE = 'https://issuer.example', 'my-api'
KEY = 'sk-simulator-development-only-0000000000000000'
BINARIES = os.environ.get('BINARIES', '.build/release')


class Process:
    """One of our programs, ended by its id."""

    def __init__(self, arguments, log):
        environment = dict(os.environ, SWIFT_BACKTRACE='enable=no')
        for name in ('JANUARY_API_KEY', 'JANUARY_API_KEY_FILE', 'CONFIG_FILE', 'LISTEN', 'PORT'):
            environment.pop(name, None)
        self.log = open(log, 'wb')
        self.process = subprocess.Popen(arguments, stdout=self.log, stderr=self.log, env=environment)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.log.close()
        return self.process.returncode


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def wait_for(port, process):
    for _ in range(400):
        if process.process.poll() is not None:
            sys.exit('ended at start, see %s' % process.log.name)
        try:
            socket.create_connection(('127.0.0.1', port), 1).close()
            return
        except OSError:
            time.sleep(0.025)
    sys.exit('nothing listens on %d' % port)


class Endpoint:
    """The endpoint with one verifier, given as lines of YAML."""

    def __init__(self, folder, name, january, verifier):
        self.port, self.folder = free_port(), folder
        path = os.path.join(folder, name + '.yaml')
        with open(path, 'w') as f:
            f.write('''listen: "127.0.0.1:%d"
management: { listen: "off" }
january: { api_key_file: api_key, base_url: "http://127.0.0.1:%d" }
sessions:
  verifiers:
    - type: jwt
      issuer: %s
      audience: %s
      name: corpus
%s
features: [food_search]
rate_limits: { per_address: false, per_session: false, per_end_user: false, all: false }
drain: { delay_seconds: 0, timeout_seconds: 5 }
log: { requests: none }
''' % (self.port, january, ISSUER, AUDIENCE, ''.join('      %s\n' % line for line in verifier)))
        self.process = Process([os.path.join(BINARIES, 'january-token-endpoint'), 'serve', '--config', path], path + '.log')
        wait_for(self.port, self.process)

    def send(self, lines, body=b''):
        """-> status, or 0 when the connection ends without one."""
        head = '\r\n'.join(lines + ['Host: localhost', 'Connection: close', 'Content-Length: %d' % len(body)]) + '\r\n\r\n'
        with socket.create_connection(('127.0.0.1', self.port), 10) as s:
            s.settimeout(15)
            try:
                s.sendall(head.encode('latin1', 'replace') + body)
            except OSError:
                pass
            answer = b''
            try:
                while True:
                    some = s.recv(65536)
                    if not some:
                        break
                    answer += some
            except OSError:
                pass
        return int(answer[9:12]) if answer[:9] == b'HTTP/1.1 ' else 0

    def mint(self, token):
        return self.send(['POST /january/client-token HTTP/1.1', 'Authorization: Bearer ' + token])


def run_http(corpora, folder, january, verbose):
    endpoint = Endpoint(folder, 'http', january, ['hmac_secret_file: secret', 'algorithms: [HS256]'])
    out = os.path.join(folder, 'http.json')
    command = [sys.executable, os.path.join(corpora, 'http1_run.py'), '127.0.0.1', str(endpoint.port), '--cases',
               os.path.join(corpora, 'http1-cases.jsonl'), '--path', '/january/client-token', '--json', out]
    subprocess.run(command + (['--verbose'] if verbose else []))
    code = endpoint.process.stop()
    with open(out) as f:
        result = json.load(f)
    good = result['alive_after'] and code == 0
    for group, gate in (('MUST', 100), ('SHOULD', 98), ('STRICT', 95), ('LIMIT', 100)):
        passed, total = result['totals'].get(group, (0, 0))
        # A group without a case has shown nothing.
        good &= total > 0 and passed * 100 >= gate * total
    for group in ('accept', 'close'):
        passed, total = result['expectations'].get(group, (0, 0))
        good &= total > 0 and passed == total
    total = result['totals']['ALL']
    print('HTTP corpus: %d of %d, gate %s' % (total[0], total[1], 'held' if good else 'MISSED'))
    return good


def run_jwt(corpora, folder, january, verbose):
    keys = os.path.join(folder, 'jwt')
    subprocess.run([sys.executable, os.path.join(corpora, 'jwt_build.py'), '--iss', ISSUER, '--aud', AUDIENCE, '--out', keys],
                   check=True, stdout=subprocess.DEVNULL)
    key = lambda name: os.path.join(keys, 'keys', name)
    verifiers = {
        'hs': ['hmac_secret_file: %s' % key('hs.secret'), 'algorithms: [HS256, HS384, HS512]'],
        'hs-short': ['hmac_secret_file: %s' % key('hs-short.secret'), 'algorithms: [HS256]'],
        'rsa': ['public_key_files: [%s]' % key('rsa.pub.pem'), 'algorithms: [RS256, RS384, RS512, PS256, PS384, PS512]'],
        'rsa1024': ['public_key_files: [%s]' % key('rsa1024.pub.pem'), 'algorithms: [RS256]'],
        'ec': ['public_key_files: [%s]' % key('ec256.pub.pem'), 'algorithms: [ES256]'],
        'ec384': ['public_key_files: [%s]' % key('ec384.pub.pem'), 'algorithms: [ES384]'],
        'ec521': ['public_key_files: [%s]' % key('ec521.pub.pem'), 'algorithms: [ES512]'],
        'ed': ['public_key_files: [%s]' % key('ed25519.pub.pem'), 'algorithms: [EdDSA]'],
        'jwks': ['jwks_file: %s' % key('jwks.json'), 'algorithms: [RS256, ES256, EdDSA]'],
        'jwks-dup': ['jwks_file: %s' % key('jwks-dup.json'), 'algorithms: [RS256, ES256]'],
    }
    with open(os.path.join(keys, 'tokens.jsonl')) as f:
        cases = [json.loads(line) for line in f]
    for name in os.listdir(os.path.join(keys, 'keys')):
        os.chmod(key(name), 0o600)
    good = True
    counts = {True: 0, False: 0}
    for trust in sorted({case['trust'] for case in cases}):
        chosen = [case for case in cases if case['trust'] == trust]
        if trust in ('hs-short', 'rsa1024'):
            # A key that is too weak is refused when it is loaded, so nothing it signed can be accepted.
            refused = refuses_at_start(folder, trust, january, verifiers[trust])
            counts[refused] += len(chosen)
            if not refused:
                print('FAIL %-10s the weak key was accepted' % trust)
            continue
        endpoint = Endpoint(folder, 'jwt-' + trust, january, verifiers[trust])
        for case in chosen:
            status = judge_jwt(endpoint, case)
            ok = {'accept': status == 201, 'reject': status in (400, 401, 403, 413, 431),
                  'policy': status == 201 or 400 <= status < 500}[case['expected']]
            counts[ok] += 1
            if verbose or not ok:
                print('%-4s %-10s %-8s %-3d %s' % ('ok' if ok else 'FAIL', trust, case['expected'], status, case['id']))
        if endpoint.process.stop() != 0:
            print('FAIL %-10s the endpoint did not end well' % trust)
            good = False
    good &= counts[False] == 0
    print('JWT corpus: %d of %d, gate %s' % (counts[True], sum(counts.values()), 'held' if good else 'MISSED'))
    return good


def refuses_at_start(folder, name, january, verifier):
    path = os.path.join(folder, name + '.yaml')
    with open(path, 'w') as f:
        f.write('january: { api_key_file: api_key, base_url: "http://127.0.0.1:%d" }\nfeatures: [food_search]\nsessions:\n  verifiers:\n'
                '    - type: jwt\n      issuer: %s\n      audience: %s\n%s' % (
                    january, ISSUER, AUDIENCE, ''.join('      %s\n' % line for line in verifier)))
    result = subprocess.run([os.path.join(BINARIES, 'january-token-endpoint'), 'check', '--config', path],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return result.returncode == 78 and b'_file' in result.stderr


def judge_jwt(endpoint, case):
    if 'transport' not in case:
        return endpoint.mint(case['token'])
    transport = case['transport']
    target, lines, body = '/january/client-token', [], b''
    if 'query' in transport:
        target += '?' + transport['query']
    if 'form' in transport:
        body = transport['form'].encode()
        lines.append('Content-Type: application/x-www-form-urlencoded')
    return endpoint.send(['POST %s HTTP/1.1' % target] + transport.get('headers', []) + lines, body)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('corpora')
    parser.add_argument('--only', choices=['http', 'jwt'])
    parser.add_argument('--verbose', action='store_true')
    arguments = parser.parse_args()
    corpora = os.path.abspath(arguments.corpora)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (('api_key', KEY), ('secret', 'corpus-secret-of-at-least-32-bytes-0123456789')):
            with open(os.path.join(folder, name), 'w') as f:
                f.write(text)
            os.chmod(os.path.join(folder, name), 0o600)
        port = free_port()
        simulator = Process([os.path.join(BINARIES, 'january-simulator'), '--listen', '127.0.0.1:%d' % port],
                            os.path.join(folder, 'simulator.log'))
        try:
            wait_for(port, simulator)
            if arguments.only != 'jwt':
                good &= run_http(corpora, folder, port, arguments.verbose)
            if arguments.only != 'http':
                good &= run_jwt(corpora, folder, port, arguments.verbose)
        finally:
            simulator.stop()
    sys.exit(0 if good else 1)


if __name__ == '__main__':
    main()
