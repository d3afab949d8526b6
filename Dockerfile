# Builds with the toolchain's image, runs on a small Debian: no compiler, no package manager needed at run time, not root.
FROM swift:6.3-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends libssl-dev zlib1g-dev libyaml-dev libsqlite3-dev libhiredis-dev pkg-config \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY Package.swift ./
COPY Sources ./Sources
COPY Tests ./Tests
RUN swift build -c release --static-swift-stdlib --product january-token-endpoint \
    && strip .build/release/january-token-endpoint

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libssl3 zlib1g libyaml-0-2 libsqlite3-0 libhiredis0.14 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --no-create-home --uid 10001 january
COPY --from=build /build/.build/release/january-token-endpoint /usr/local/bin/january-token-endpoint
USER 10001
# A crash report would show memory, so secrets.
ENV SWIFT_BACKTRACE=enable=no LISTEN=0.0.0.0:8787
EXPOSE 8787
HEALTHCHECK --interval=10s --timeout=6s --start-period=5s CMD ["january-token-endpoint", "healthcheck"]
ENTRYPOINT ["january-token-endpoint"]
CMD ["serve"]
