// swift-tools-version: 6.2

// One list of targets, top to bottom: a target may depend only on targets listed below it.
// Tests/LayeringTests reads this description and checks every arrow.

import PackageDescription

let settings: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    // Small functions of the targets below are called for every byte and every request of those above.
    // Exclusive access is checked at run time in every build that tests, fuzzers and sanitizers use; 5 % of a mint in this one.
    .unsafeFlags(
        ["-cross-module-optimization", "-enforce-exclusivity=unchecked"], .when(configuration: .release)),
]

/// A target of our own code under `Sources/`.
///
/// - Parameter embedded: files that become part of the program, as `PackageResources`: none is read when it runs.
func target(_ name: String, _ dependencies: [String], embedded: [String] = []) -> Target {
    .target(
        name: name, dependencies: dependencies.map { .init(stringLiteral: $0) }, resources: embedded.map { .embedInCode($0) },
        swiftSettings: settings)
}

func executable(_ name: String, _ dependencies: [String]) -> Target {
    .executableTarget(
        name: name, dependencies: dependencies.map { .init(stringLiteral: $0) }, swiftSettings: settings)
}

/// The tests of one target; `TestSupport` comes with every one of them.
func tests(_ name: String, _ dependencies: [String]) -> Target {
    .testTarget(
        name: name, dependencies: (dependencies + ["TestSupport"]).map { .init(stringLiteral: $0) },
        swiftSettings: settings)
}

/// A C library of the system, through a module map under `Sources/`.
func library(_ name: String, pkgConfig: String? = nil, apt: String) -> Target {
    .systemLibrary(name: name, pkgConfig: pkgConfig, providers: [.apt([apt])])
}

let package = Package(
    name: "january-token-endpoint",
    products: [
        .executable(name: "january-token-endpoint", targets: ["january-token-endpoint"]),
        .executable(name: "january-simulator", targets: ["january-simulator"]),
    ],
    targets: [
        executable("january-token-endpoint", ["CommandLineTool"]),
        executable("january-simulator", ["JanuarySimulator"]),
        target(
            "CommandLineTool",
            [
                "TokenEndpoint", "HTTPClient", "Sessions", "EndUsers", "Policy", "January", "Revocations", "RateLimiting",
                "Telemetry", "Configuration", "TLS", "EventLoop", "HTTPMessage", "JOSE", "Digests", "StrictJSON", "Primitives",
            ]),
        target(
            "TokenEndpoint",
            [
                "HTTPServer", "HTTPClient", "Sessions", "EndUsers", "Policy", "January", "Revocations", "RateLimiting", "Redis",
                "SQLite", "Telemetry", "Configuration", "TLS", "EventLoop", "HTTPMessage", "JOSE", "Digests", "GCRA",
                "StrictJSON", "Primitives", "CZlib",
            ], embedded: ["html", "css", "js"].map { "Management/Page/status.\($0)" }),
        target(
            "JanuarySimulator",
            ["TLS", "EventLoop", "HTTPMessage", "JOSE", "Digests", "StrictJSON", "Primitives"]),
        target("HTTPServer", ["Configuration", "EventLoop", "HTTPMessage", "Primitives"]),
        target("HTTPClient", ["TLS", "EventLoop", "HTTPMessage", "Primitives", "CZlib"]),
        target(
            "Sessions",
            ["Telemetry", "Configuration", "EventLoop", "HTTPMessage", "JOSE", "Digests", "StrictJSON", "Primitives"]),
        target("EndUsers", ["Configuration", "Digests", "StrictJSON", "Primitives"]),
        target("Policy", ["Configuration", "StrictJSON", "Primitives"]),
        target("January", ["Configuration", "HTTPMessage", "Digests", "StrictJSON", "Primitives"]),
        target(
            "Revocations",
            ["Redis", "SQLite", "Telemetry", "Configuration", "EventLoop", "Digests", "StrictJSON", "Primitives"]),
        target(
            "RateLimiting",
            ["Redis", "Telemetry", "Configuration", "EventLoop", "HTTPMessage", "Digests", "GCRA", "Primitives"]),
        target("Redis", ["Telemetry", "Configuration", "TLS", "EventLoop", "Primitives", "CHiredis"]),
        target("SQLite", ["EventLoop", "Primitives", "CSQLite"]),
        target("Telemetry", ["Configuration", "Digests", "Primitives"]),
        target("Configuration", ["StrictJSON", "Primitives", "CYaml"]),
        target("TLS", ["EventLoop", "Primitives", "COpenSSL"]),
        target("EventLoop", ["Primitives", "CSystem"]),
        target("HTTPMessage", ["Primitives"]),
        target("JOSE", ["Digests", "StrictJSON", "Primitives", "COpenSSL"]),
        target("Digests", ["Primitives", "COpenSSL"]),
        target("GCRA", ["Primitives"]),
        target("StrictJSON", ["Primitives"]),
        target("Primitives", []),
        library("COpenSSL", pkgConfig: "openssl", apt: "libssl-dev"),
        library("CYaml", pkgConfig: "yaml-0.1", apt: "libyaml-dev"),
        library("CZlib", pkgConfig: "zlib", apt: "zlib1g-dev"),
        library("CSQLite", pkgConfig: "sqlite3", apt: "libsqlite3-dev"),
        library("CHiredis", apt: "libhiredis-dev"),
        library("CSystem", apt: "libc6-dev"),

        .target(
            name: "TestSupport", dependencies: ["EventLoop", "Primitives"], path: "Tests/TestSupport",
            swiftSettings: settings),
        tests("PrimitivesTests", ["Primitives"]),
        tests("StrictJSONTests", ["StrictJSON", "Primitives"]),
        tests("JOSETests", ["JOSE", "Digests", "StrictJSON", "Primitives"]),
        tests("HTTPMessageTests", ["HTTPMessage", "Primitives"]),
        tests("EventLoopTests", ["EventLoop", "Primitives"]),
        tests("TLSTests", ["TLS", "EventLoop", "Primitives"]),
        tests("ConfigurationTests", ["Configuration", "StrictJSON", "Primitives"]),
        tests("TelemetryTests", ["Telemetry", "Configuration", "Primitives"]),
        tests("GCRATests", ["GCRA", "Primitives"]),
        tests("SQLiteTests", ["SQLite", "EventLoop", "Primitives"]),
        tests("RedisTests", ["Redis", "Telemetry", "Configuration", "TLS", "EventLoop", "Primitives"]),
        tests(
            "RateLimitingTests",
            [
                "RateLimiting", "Redis", "Telemetry", "Configuration", "TLS", "EventLoop", "HTTPMessage", "Digests", "GCRA",
                "StrictJSON", "Primitives",
            ]),
        tests(
            "RevocationsTests",
            [
                "Revocations", "Redis", "SQLite", "Telemetry", "Configuration", "TLS", "EventLoop", "Digests", "StrictJSON",
                "Primitives",
            ]),
        tests("JanuaryTests", ["January", "Configuration", "HTTPMessage", "StrictJSON", "Primitives"]),
        tests("PolicyTests", ["Policy", "Configuration", "StrictJSON", "Primitives"]),
        tests("EndUsersTests", ["EndUsers", "Configuration", "StrictJSON", "Primitives"]),
        tests(
            "SessionsTests",
            ["Sessions", "Telemetry", "Configuration", "EventLoop", "HTTPMessage", "JOSE", "StrictJSON", "Primitives"]),
        tests("HTTPClientTests", ["HTTPClient", "CZlib", "TLS", "EventLoop", "HTTPMessage", "Primitives"]),
        tests("HTTPServerTests", ["HTTPServer", "Configuration", "TLS", "EventLoop", "HTTPMessage", "Primitives"]),
        tests(
            "JanuarySimulatorTests",
            ["JanuarySimulator", "TLS", "EventLoop", "HTTPMessage", "JOSE", "StrictJSON", "Primitives"]),
        tests(
            "TokenEndpointTests",
            [
                "TokenEndpoint", "JanuarySimulator", "HTTPServer", "HTTPClient", "Sessions", "EndUsers", "Policy",
                "January", "Revocations", "RateLimiting", "Redis", "SQLite", "Telemetry", "Configuration", "TLS", "EventLoop",
                "HTTPMessage", "JOSE", "GCRA", "StrictJSON", "Digests", "Primitives",
            ]),
        tests(
            "CommandLineToolTests",
            ["CommandLineTool", "TokenEndpoint", "Configuration", "EventLoop", "Digests", "StrictJSON", "Primitives"]),
        tests("ProcessTests", ["JanuarySimulator", "Configuration", "EventLoop", "JOSE", "StrictJSON", "Primitives"]),
        tests("LayeringTests", ["StrictJSON", "Primitives"]),
    ],
    swiftLanguageModes: [.v6]
)
