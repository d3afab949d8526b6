"""The programs the endpoint is compared with, each doing (part of) the same work in front of the same stub."""

import os
import shutil
import subprocess

from common import HERE, STOP_SECONDS, TOKEN_PATH, Server, build_tool, free_port

SBIN = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

NGINX = """
daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log warn;
events {{ worker_connections 12000; }}
http {{
    access_log off;
    server_tokens off;
    keepalive_timeout 75s;
    keepalive_requests 1000000000;
    client_body_temp_path {folder}/nginx-body;
    proxy_temp_path {folder}/nginx-proxy;
    fastcgi_temp_path {folder}/nginx-fastcgi;
    uwsgi_temp_path {folder}/nginx-uwsgi;
    scgi_temp_path {folder}/nginx-scgi;
    upstream january {{
        server 127.0.0.1:{stub};
        keepalive 512;
        keepalive_requests 1000000000;
        keepalive_timeout 60s;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location = {path} {{
            proxy_pass http://january/v1.2/auth/client-tokens;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
        location = /healthz {{
            default_type application/json;
            return 200 '{{"status":"ok"}}';
        }}
    }}
}}
"""

# As many checks of a session as HAProxy can make by itself, and one limit for each subject in a table of its own.
HAPROXY = """
global
    nbthread 1
    maxconn 8000
    log /dev/null local0
defaults
    mode http
    timeout connect 2s
    timeout client 75s
    timeout server 10s
    http-reuse always
backend limits
    stick-table type string len 64 size 100k expire 60s store http_req_rate(60s)
frontend public
    bind 127.0.0.1:{port}
    http-request set-var(txn.alg) http_auth_bearer,jwt_header_query('$.alg')
    http-request set-var(txn.sub) http_auth_bearer,jwt_payload_query('$.sub')
    http-request set-var(txn.exp) http_auth_bearer,jwt_payload_query('$.exp','int')
    http-request deny deny_status 401 unless {{ var(txn.alg) -m str {algorithm} }}
    http-request deny deny_status 401 unless {{ http_auth_bearer,jwt_payload_query('$.iss') -m str https://login.bench.example }}
    http-request deny deny_status 401 unless {{ http_auth_bearer,jwt_payload_query('$.aud') -m str bench-api }}
    http-request deny deny_status 401 unless {{ http_auth_bearer,jwt_verify(txn.alg,"{key}") -m int 1 }}
    http-request deny deny_status 401 if {{ date,neg,add(txn.exp) -m int lt 0 }}
    http-request track-sc0 var(txn.sub) table limits
    http-request deny deny_status 429 if {{ sc_http_req_rate(0,limits) gt 1000000000 }}
    http-request set-header Authorization "Bearer sk-{padding}"
    http-request set-path /v1.2/auth/client-tokens
    default_backend january
backend january
    server stub 127.0.0.1:{stub}
"""


def start_nginx(stack, folder, stub, cpu):
    port = free_port()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, stub=stub, path=TOKEN_PATH))
    server = Server(
        stack, "nginx", [shutil.which("nginx", path=SBIN), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e",
                         str(folder / "nginx-error.log")], port, cpu, folder)
    server.wait_until_answering("POST", TOKEN_PATH, 201)
    server.wait_until_answering("GET", "/healthz", 200)
    return server


def start_haproxy(stack, folder, stub, cpu, algorithm, tokens):
    """Verifies with the public key that `write_sessions` has left beside the tokens."""
    port = free_port()
    configuration = folder / f"haproxy-{algorithm}.cfg"
    configuration.write_text(HAPROXY.format(
        port=port, stub=stub, algorithm=algorithm, key=folder / f"{algorithm}.pub.pem", padding="b" * 43))
    server = Server(stack, f"haproxy-{algorithm}", [shutil.which("haproxy", path=SBIN), "-db", "-f", str(configuration)], port, cpu, folder)
    with open(tokens) as file:
        server.wait_until_answering("POST", TOKEN_PATH, 201, token=file.readline().strip())
    # It must refuse what it should, or the comparison is with one that does not look.
    server.wait_until_answering("POST", TOKEN_PATH, 401, token="a.b.c")
    return server


def start_node(stack, folder, stub, cpu):
    port = free_port()
    server = Server(stack, "node", ["node", str(HERE / "relay.mjs"), str(port), str(stub)], port, cpu, folder)
    server.wait_until_answering("POST", TOKEN_PATH, 201)
    return server


def start_tls_stub(stack, folder, cpu):
    """The stub behind TLS 1.3, with a certificate for 127.0.0.1. Returns its port and the authority's file."""
    certificate, key = folder / "stub.pem", folder / "stub.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(key), "-out",
         str(certificate), "-subj", "/CN=stub", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"], check=True, stderr=subprocess.DEVNULL)
    process = subprocess.Popen(
        ["taskset", "-c", str(cpu), build_tool(folder, "stub", "-lssl", "-lcrypto"), "0", str(certificate), str(key)],
        stdout=subprocess.PIPE, text=True)
    stack.callback(lambda: (process.kill(), process.wait(STOP_SECONDS)))
    return int(process.stdout.readline()), certificate
