-- One wrk script for every kind of work. Environment: BENCH_METHOD, BENCH_PATH, BENCH_TOKENS (a file, one bearer token a line; none:
-- no Authorization field), BENCH_FRESH (not empty: a new connection for each request), BENCH_FORWARDED (not empty: each request for another
-- client address, as a proxy would say). Requests are made before the clock starts and sent in turn, so every session comes up equally often.
local requests = {}
local position = 0

function init(args)
    local method, path, tokens = os.getenv("BENCH_METHOD"), os.getenv("BENCH_PATH"), os.getenv("BENCH_TOKENS")
    local fresh, forwarded = os.getenv("BENCH_FRESH"), os.getenv("BENCH_FORWARDED")
    if fresh and fresh ~= "" then wrk.headers["Connection"] = "close" end
    if method == "POST" then wrk.headers["Content-Length"] = "0" end
    if tokens and tokens ~= "" then
        for token in io.lines(tokens) do
            wrk.headers["Authorization"] = "Bearer " .. token
            if forwarded and forwarded ~= "" then
                wrk.headers["X-Forwarded-For"] = string.format("203.0.%d.%d", math.floor(#requests / 256) % 256, #requests % 256)
            end
            requests[#requests + 1] = wrk.format(method, path)
        end
    else
        requests[1] = wrk.format(method, path)
    end
end

function request()
    position = position % #requests + 1
    return requests[position]
end

function done(summary, latency, requests)
    io.write(string.format(
        "BENCH {\"requests\":%d,\"microseconds\":%d,\"p50\":%.1f,\"p99\":%.1f,\"max\":%.1f,\"status_errors\":%d,\"socket_errors\":%d}\n",
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max, summary.errors.status,
        summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
