# Builds with the toolchain's image, runs on a small Debian: no compiler, no shell and no package manager needed at run time, not root.
# For the same bytes again, give the two images by digest: --build-arg SWIFT_IMAGE=swift@sha256:… --build-arg DEBIAN_IMAGE=debian@sha256:…
ARG SWIFT_IMAGE=swift:6.3.1-bookworm
ARG DEBIAN_IMAGE=debian:bookworm-slim

FROM ${SWIFT_IMAGE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends libssl-dev zlib1g-dev libyaml-dev libsqlite3-dev libhiredis-dev pkg-config \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY Package.swift ./
COPY Sources ./Sources
COPY Tests ./Tests
RUN swift build -c release --static-swift-stdlib --product january-token-endpoint \
    && strip .build/release/january-token-endpoint

FROM ${DEBIAN_IMAGE}
# What is fixed since that image was made comes with the build.
RUN apt-get update && apt-get upgrade -y \
    && apt-get install -y --no-install-recommends ca-certificates libstdc++6 libssl3 zlib1g libyaml-0-2 libsqlite3-0 libhiredis0.14 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 january \
    && useradd --system --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin --uid 10001 --gid 10001 january \
    && install -d -m 0700 -o 10001 -g 10001 /var/lib/january-token-endpoint
COPY --from=build /build/.build/release/january-token-endpoint /usr/local/bin/january-token-endpoint
USER 10001:10001
# A crash report would show memory, so secrets. STATE_DIRECTORY is where blocks are kept unless the configuration has a state.
ENV SWIFT_BACKTRACE=enable=no LISTEN=0.0.0.0:8787 STATE_DIRECTORY=/var/lib/january-token-endpoint
# The only place that is written to: the rest may be read-only (docker run --read-only).
VOLUME /var/lib/january-token-endpoint
EXPOSE 8787
# The drain is over after drain.timeout_seconds (20): docker stop --time 30.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=5s CMD ["january-token-endpoint", "healthcheck"]
ENTRYPOINT ["january-token-endpoint"]
CMD ["serve"]
