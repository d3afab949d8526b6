#!/usr/bin/env python3
"""Writes the seed corpus of each fuzz target into the folder given: a few inputs that reach its parts. Made here, so that the repository
holds no binaries.

usage: fuzz/seeds.py FOLDER
"""

import gzip
import pathlib
import subprocess
import sys

CRLF = "\r\n"
HOST = "Host: x\r\n"


def b64(text):
    import base64
    return base64.urlsafe_b64encode(text if isinstance(text, bytes) else text.encode()).rstrip(b"=").decode()


CLAIMS = ('{"iss":"https://login.example","aud":["api","other"],"sub":"user-1","exp":1796003600,"nbf":1796000000,"iat":1796000000.5,'
          '"sid":"s1","plan":{"a":[1,2,{"b":null}]}}')
HEADER = '{"alg":"HS256","typ":"JWT","kid":"k1"}'
RSA = ('{"kty":"RSA","kid":"r1","use":"sig","alg":"RS256","e":"AQAB","n":"' + b64(b"\xc1" + bytes(range(1, 256)) + b"") + '"}')
EC = ('{"kty":"EC","kid":"e1","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",'
      '"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}')
OKP = '{"kty":"OKP","kid":"o1","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","key_ops":["verify"]}'
OCT = '{"kty":"oct","kid":"h1","alg":"HS256","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}'

REQUESTS = [
    "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "POST /january/client-token?x=1 HTTP/1.1\r\nHost: a:8787\r\nAuthorization: Bearer abc\r\nContent-Length: 0\r\n\r\n",
    "\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close, x\r\n\r\n",
    "GET http://[::1]:80/a%20b HTTP/1.1\r\nHost: y\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
    "PUT /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length: 4\r\n\r\n",
    "GET / HTTP/2.0\r\nHost: x\r\n\r\n", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\n",
    "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", "GET / HTTP/1.1\r\nHost : x\r\n\r\n", "GET / HTTP/1.1\r\nA\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
]
RESPONSES = [
    "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "HTTP/1.0 200 OK\r\n\r\nuntil close", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 429 \r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "HTTP/1.1 200\r\nContent-Length: 3, 3\r\n\r\nabc", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 999 X\r\n\r\n", "HTTP/2 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc",
]
CHUNKS = ["3\r\nabc\r\n0\r\n\r\n", "3;a=b;c=\"d\\\"e\"\r\nabc\r\n1\r\nx\r\n0;z\r\nT: t\r\n\r\n", "A\r\n0123456789\r\n000\r\n\r\n", "ffffffffffffffff\r\n",
          "3\r\nabcX", "1 \r\na\r\n0\r\n\r\n", "0\r\nT : t\r\n\r\n", "0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n", "3;=\r\nabc\r\n0\r\n\r\n"]
CONVERSATIONS = [
    REQUESTS[0] + REQUESTS[0] + REQUESTS[1],
    "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST /e HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: t\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET",
    "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", REQUESTS[7], "POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nxx",
]
TARGETS = ["/", "/a/b?c=d", "*", "http://example.com:80/a?b", "https://[2001:db8::1]/", "example.com:443", "http://user:pw@x/", "//a", "/%2e%2e/%zz",
           "http://x", "http://x?y", "[::ffff:1.2.3.4]:1", "1.2.3.4", "a_b.c", "x:65536", "https://app.example.com"]
FIELDS = ["Connection: close, keep-alive", "Connection: Close\r\nconnection:\tx , CLOSE ", "Accept-Encoding: gzip;q=0.5, , identity",
          "X-Request-Id: abc\r\nRetry-After: 3.5", "A: \t \r\nB:b\r\nhost: x", "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
          "Sun Nov  6 08:49:37 1994", "120", "0.25", "Fri, 31 Feb 2027 10:00:00 GMT"]
JSON = ['{"a":[1,2.5,-0,1e10,true,false,null,"x\\n\\u00e9\\ud83d\\ude00"],"b":{"c":{}}}', "[]", '"\\u0000"', "-1.5E+300", "[[[[[[[[[[1]]]]]]]]]]",
        '{"a":1,"\\u0061":2}', '"\\ud800"', '{"a":1,}', "01", "1e999999", " \t\n{ \"\" : 9223372036854775807 } ", '"\xff"', "\xef\xbb\xbf1",
        "[" * 33 + "]" * 33]
YAML = [
    pathlib.Path(__file__).resolve().parent.parent.joinpath("config/minimal.yaml").read_text(),
    "january: {base_url: https://partners.january.ai}\nsessions:\n  from: [bearer, {header: X-Session}]\n  verifiers:\n"
    "    - {type: jwt, issuer: https://login.example, audience: [a, b], algorithms: [ES256], jwks_url: https://login.example/jwks.json}\n"
    "features: [food_search]\n",
    "sessions: {verifiers: [{type: firebase, project_id: p1}]}\nfeatures: [food_search]\ngrants:\n  - when: {all: [{claim: plan, in: [pro, \"1\", 1]},"
    " {not: {claim: /a/b, exists: true}}]}\n    features: [coach]\n    ttl_seconds: 300\nfeature_scopes: {coach: [\"foods:read\"]}\n"
    "token: {ttl_seconds: 1800}\nend_user_id: {from: sub, prefix: a-}\n",
    "sessions:\n  verifiers:\n    - type: auth0\n      domain: acme.eu.auth0.com\n      audience: x\n      namespace: n\nfeatures: []\n"
    "policy_tests:\n  - {name: t, claims: {sub: u}, expect: {scopes: [\"foods:read\"], ttl_seconds: 300}}\nlog: {level: debug, format: json}\n",
    "a: &x 1\nb: *x\n", "a: !!str 1\n", "<<: {a: 1}\n", "a: 1\na: 2\n", "---\na: 1\n---\nb: 2\n", "a: [1, {b: c}]\n? [x]\n: y\n", "a: |\n  text\n  more\nb: >-\n  x\n",
    "a: 'it''s'\nb: \"\\u00e9\\x41\"\nno: yes\n", "trusted_proxies: [10.0.0.0/8]\nmax_connections_per_address: 256\nmax_connections: 1e3\n", "\t- x", "{\"a\": [1,2]}",
]
ANSWER = ('{"token":"ct-abcDEF123","expires_in":1800,"expires_at":"2026-11-30T00:00:00.000Z","end_user_id":"user-1",'
          '"scopes":["food_logs:read","food_logs:write","foods:read"]}')
ANSWERS = [ANSWER, ANSWER.replace("1800", "60"), ANSWER.replace("user-1", "user-2"), ANSWER.replace('"foods:read"', '"glucose:read"'),
           ANSWER.replace('"expires_at"', '"expiresIn":5,"x"'), ANSWER.replace("user-1", "us\\u0065r-1"), ANSWER[:-1] + ',"token":"ct-x"}', "[]",
           " " + ANSWER.replace(",", " ,\n"), ANSWER.replace("1800", "1.8e3"), ANSWER.replace('"ct-', '"sk-'), ANSWER[:-1] + ',"n":{"a":[1]}}']
COOKIES = ["a=b; app_session=tok%20en; c=d", "app_session=x; app_session=y", "app_session=\"quoted\"", "app_session=%zz", "app_session=", "=x; app_session", "x"]
FORWARDED = ["192.0.2.1, 10.0.0.1", "for=192.0.2.60;proto=http;by=203.0.113.43", "For=\"[2001:db8:cafe::17]:4711\", for=unknown", "for=\"_gazonk\"",
             "192.0.2.1:4711, [2001:db8::1]:80, 2001:db8::1, fe80::1%eth0, ::ffff:10.1.2.3, x", "for=\"10.0.0.1\\\"\";host=\"a,b\"", ",, ,10.0.0.1,"]
REDIS = ["+OK\r\n", "$5\r\nhello\r\n", "*2\r\n:1\r\n$-1\r\n", "-ERR no\r\n", "*1\r\n*1\r\n*0\r\n", ":9223372036854775807\r\n", "$-1\r\n", "*-1\r\n", "%1\r\n+a\r\n:1\r\n", "_\r\n"]


def pems():
    made = []
    for command in (["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
                    ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], ["openssl", "genpkey", "-algorithm", "ED25519"]):
        private = subprocess.run(command, capture_output=True, check=True).stdout
        public = subprocess.run(["openssl", "pkey", "-pubout"], input=private, capture_output=True, check=True).stdout
        made += [private, public, public + public]
        if b"ED25519" not in command[-1].encode():
            made.append(subprocess.run(
                ["openssl", "req", "-x509", "-new", "-key", "/dev/stdin", "-subj", "/CN=seed", "-days", "10"], input=private,
                capture_output=True, check=True).stdout)
    return made + [b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", b"-----BEGIN X-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END X-----\n"]


def seeds():
    signed = b"\x01" + HEADER.encode() + b"." + CLAIMS.encode()
    return {
        "request_head": REQUESTS,
        "response_head": RESPONSES,
        "exchange": ["\x00" + one for one in RESPONSES],
        "chunked": ["\x00" + one for one in CHUNKS] + ["\x20" + one for one in CHUNKS] + ["\x85abcdefgh", "\xe0abc", "\xc0abc"],
        "conversation": CONVERSATIONS + REQUESTS,
        "target": TARGETS,
        "fields": FIELDS,
        "cookies": COOKIES,
        "forwarded": FORWARDED,
        "jws": [signed, b"\x00" + CLAIMS.encode(), b64(HEADER) + "." + b64(CLAIMS) + "." + b64(b"x" * 32),
                b"\x01" + b'{"alg":"none"}.{"sub":"x"}', b"\x01" + b'{"alg":"HS256","crit":["b64"],"b64":false}.{}', "a.b.c",
                b"\x00" + b'{"exp":1e400}', b"\x00" + b'{"aud":"api","iss":"https://login.example","exp":1796003600,"sub":"","cnf":{}}'],
        "jwk_set": ['{"keys":[%s]}' % ",".join(keys) for keys in ([RSA], [EC], [OKP], [OCT], [RSA, EC, OKP, OCT, EC], [])]
        + ['{"keys":[1,{"kty":"x"},{"kty":"RSA","n":"AQ","e":"AQAB"}]}', '{"keys":{}}', "[]"],
        "json": JSON,
        "yaml": YAML,
        "january_answer": ANSWERS,
        "pem": pems(),
        "gzip": [gzip.compress(one, mtime=0) for one in (b"", b"abc", b"a" * 5000, bytes(range(256)))]
        + [gzip.compress(b"a", mtime=0) + gzip.compress(b"b", mtime=0), gzip.compress(b"x", mtime=0)[:-1]],
        "redis": REDIS,
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, inputs in seeds().items():
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        for index, one in enumerate(inputs):
            (target / f"seed-{index:02d}").write_bytes(one if isinstance(one, bytes) else one.encode("latin-1", "surrogateescape")
                                                       if all(ord(c) < 256 for c in one) else one.encode())


if __name__ == "__main__":
    main()
