import Foundation
import TestSupport
import Testing

@testable import Configuration

/// The manifests in `deploy/kubernetes`, checked against the published schemas of the API, and for what the endpoint needs of them.
@Suite struct DeployKubernetesTests {
    private static let kubectl = ["/usr/bin/kubectl", "/usr/local/bin/kubectl"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }
    private static let folder = "deploy/kubernetes/"
    private static let manifests = [
        "base/deployment.yaml", "base/service.yaml", "base/availability.yaml", "base/network.yaml",
        "sqlite/volume.yaml",
    ]

    private func objects(_ files: [String] = manifests) throws -> [YAMLValue] {
        try files.flatMap { try YAMLValue.documents(DeploymentTests.text(Self.folder + $0), $0) }
    }

    private func object(
        _ kind: String, _ name: String = "january-token-endpoint", in objects: [YAMLValue]
    ) throws -> YAMLValue {
        let found = objects.filter { $0["kind"]?.text == kind && $0["metadata"]?["name"]?.text == name }
        #expect(found.count == 1, "\(kind) \(name)")
        return try #require(found.first)
    }

    // MARK: Form

    @Test func everyManifestIsWhatTheAPITakes() throws {
        let schema = try KubernetesSchema()
        let objects = try objects()
        #expect(objects.count == 7)
        for object in objects { #expect(schema.problems(object) == []) }
    }

    /// The check itself can fail: each keyword of the schemas.
    @Test(arguments: [
        ("spec: { replicas: two }", "Deployment.spec.replicas: a string, not integer"),
        ("spec: { replicas: 2147483648 }", "Deployment.spec.replicas: 2147483648, not int32"),
        ("spec: { replica: 2 }", "Deployment.spec.replica: unknown"),
        ("spec: { replicas: 2 }", "Deployment.spec.selector: missing"),
        ("metadata: { name: a }", "Deployment.spec: missing"),
        ("spec: [a]", "Deployment.spec: a list, not object"),
        (
            "spec: { template: { spec: { containers: { name: a } } } }",
            "Deployment.spec.template.spec.containers: a mapping, not array"
        ),
        (
            "spec: { template: { spec: { containers: [{ image: a }] } } }",
            "Deployment.spec.template.spec.containers[0].name: missing"
        ),
        (
            "spec: { template: { spec: { containers: [{ name: a }, { name: a }] } } }",
            "Deployment.spec.template.spec.containers[1]: its name is there"
        ),
        (
            "spec: { strategy: { rollingUpdate: { maxSurge: true } } }",
            "Deployment.spec.strategy.rollingUpdate.maxSurge: a boolean, not string|null|integer|null"
        ),
        ("metadata: { labels: { a: 1 } }", "Deployment.metadata.labels.a: an integer, not string"),
        ("metadata: { labels: { a: true } }", "Deployment.metadata.labels.a: a boolean, not string"),
    ])
    func aWrongManifestIsFound(text: String, problem: String) throws {
        let document = try YAMLValue.documents(
            "apiVersion: apps/v1\nkind: Deployment\n" + text, "a.yaml")
        #expect(try KubernetesSchema().problems(try #require(document.first)).contains(problem))
    }

    @Test func aKindThatIsNotInTheSchemaIsFound() throws {
        let document = try YAMLValue.documents("apiVersion: apps/v1beta1\nkind: Deployment\nspec: {}\n", "a.yaml")
        #expect(try KubernetesSchema().problems(try #require(document.first)) == ["Deployment: unknown"])
    }

    /// A schema with a keyword that the check does not know would be checked in part.
    @Test func noKeywordOfASchemaIsPassedOver() {
        #expect(throws: Child.Failure.self) { try KubernetesSchema(#"{"kinds": {}, "$defs": {"a": {"pattern": "^a$"}}}"#) }
        #expect(throws: Never.self) { try KubernetesSchema(#"{"kinds": {}, "$defs": {"a": {"type": "string"}}}"#) }
    }

    @Test func kustomizationsNameWhatIsThere() throws {
        for name in ["base/", "sqlite/"] {
            let documents = try YAMLValue.documents(
                DeploymentTests.text(Self.folder + name + "kustomization.yaml"), name)
            let file = try #require(documents.first)
            let resources = try #require(file["resources"]?.items).compactMap(\.text)
            let files = try #require(file["configMapGenerator"]?.items).flatMap {
                $0["files"]?.items ?? []
            }.compactMap(\.text)
            let patches = (file["patches"]?.items ?? []).compactMap { $0["path"]?.text }
            for path in resources + files + patches {
                let url = DeploymentTests.root.appending(path: Self.folder + name + path)
                #expect(FileManager.default.fileExists(atPath: url.path), "\(name)\(path)")
            }
            for patch in (file["patches"]?.items ?? []).compactMap({ $0["patch"]?.text }) {
                #expect(try YAMLValue.documents(patch, name).first?["$patch"]?.text == "delete")
            }
        }
    }

    @Test(.enabled(if: kubectl != nil, "kubectl is not installed"), arguments: ["base", "sqlite"])
    func whatKustomizeMakesIsWhatTheAPITakes(overlay: String) async throws {
        let program = try #require(Self.kubectl)
        let path = DeploymentTests.root.appending(path: Self.folder + overlay).path
        let run = try await onOwnThread {
            try Finished(
                ["kustomize", path], environment: ["HOME": NSTemporaryDirectory()], program: program)
        }
        #expect(run.code == 0, "\(run.errors)")
        let objects = try YAMLValue.documents(run.output, overlay)
        let schema = try KubernetesSchema()
        for object in objects { #expect(schema.problems(object) == []) }
        let kinds = Set(objects.compactMap { $0["kind"]?.text })
        let spec = try #require(try object("Deployment", in: objects)["spec"])
        let configMap = try #require(objects.first { $0["kind"]?.text == "ConfigMap" })
        let volumes = try #require(spec["template"]?["spec"]?["volumes"]?.items)
        #expect(
            volumes.contains {
                $0["configMap"]?["name"] == configMap["metadata"]?["name"]
                    && configMap["metadata"]?["name"] != nil
            })
        let configuration = try #require(configMap["data"]?["config.yaml"]?.text)
        if overlay == "base" {
            #expect(
                kinds.isSuperset(of: [
                    "PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy", "Service",
                ]))
            #expect(spec["replicas"] == .integer(2))
            #expect(configuration.contains("\nstate: \"redis://"))
        } else {
            #expect(kinds.isDisjoint(with: ["PodDisruptionBudget", "HorizontalPodAutoscaler"]))
            #expect(spec["replicas"] == .integer(1))
            #expect(spec["strategy"] == .mapping(["type": .text("Recreate")]))
            #expect(
                configuration.contains("\nstate: \"sqlite:/var/lib/january-token-endpoint/state/state.db\""))
            #expect(volumes.contains { $0["persistentVolumeClaim"]?["claimName"] != nil })
            // Every mount would open the state's folder to the group.
            #expect(spec["template"]?["spec"]?["securityContext"]?["fsGroupChangePolicy"]?.text == "OnRootMismatch")
        }
    }

    // MARK: What the endpoint needs

    @Test func aPodIsNobodyAndMayWriteNowhere() throws {
        let pod = try #require(try object("Deployment", in: objects())["spec"]?["template"]?["spec"])
        let user = try #require(pod["securityContext"])
        #expect(user["runAsNonRoot"] == .boolean(true))
        // The image's.
        #expect(user["runAsUser"] == .integer(10001) && user["fsGroup"] == .integer(10001))
        #expect(user["seccompProfile"]?["type"]?.text == "RuntimeDefault")
        #expect(pod["automountServiceAccountToken"] == .boolean(false))
        let containers = try #require(pod["containers"]?.items)
        #expect(containers.count == 1)
        let rights = try #require(containers[0]["securityContext"])
        #expect(
            rights["readOnlyRootFilesystem"] == .boolean(true)
                && rights["allowPrivilegeEscalation"] == .boolean(false))
        #expect(rights["capabilities"]?["drop"] == .list([.text("ALL")]))
        let mounts = try #require(containers[0]["volumeMounts"]?.items)
        #expect(mounts.allSatisfy { $0["readOnly"] == .boolean(true) && $0["subPath"] == nil })
        let volumes = try #require(pod["volumes"]?.items).compactMap { $0["name"]?.text }
        #expect(Set(mounts.compactMap { $0["name"]?.text }) == Set(volumes))
        // Readable by the group, by nobody else: 0440.
        #expect(
            try #require(pod["volumes"]?.items).contains {
                $0["secret"]?["defaultMode"] == .integer(0o440)
            })
    }

    @Test func probesAskTheManagementListenerAndTheEndLeavesTimeForTheDrain() throws {
        let pod = try #require(try object("Deployment", in: objects())["spec"]?["template"]?["spec"])
        let container = try #require(pod["containers"]?.items?.first)
        for (probe, path) in [
            ("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz"),
        ] {
            #expect(
                container[probe]?["httpGet"]
                    == .mapping(["path": .text(path), "port": .text("management")]), "\(probe)")
        }
        let ports = try #require(container["ports"]?.items)
        #expect(ports.compactMap { $0["name"]?.text } == ["http", "management"])
        #expect(ports.compactMap { $0["containerPort"]?.number } == [8787, 8788])
        let pause = try #require(container["lifecycle"]?["preStop"]?["sleep"]?["seconds"]?.number)
        // drain.timeout_seconds.
        #expect(try #require(pod["terminationGracePeriodSeconds"]?.number) > pause + 20)
        // The whole of docs/limits.md: base, loops, connections at their worst, cells.
        let connections = 2000
        let bytes = 16 << 20 + 8 * (104 << 10) + connections * (350 + (2 * 24 + 64) << 10) + 24_000_000
        let limit = try #require(container["resources"]?["limits"]?["memory"]?.text)
        #expect(limit.hasSuffix("Mi"))
        #expect(try #require(Int(limit.dropLast(2))) << 20 > bytes)
        #expect(
            try DeploymentTests.text(Self.folder + "base/config.yaml").contains(
                "\nmax_connections: \(connections)\n"))
        #expect(
            container["resources"]?["requests"]?["cpu"] != nil
                && container["resources"]?["limits"]?["cpu"] == nil)
    }

    @Test func everythingSelectsThePods() throws {
        let objects = try objects()
        let labels = try #require(
            try object("Deployment", in: objects)["spec"]?["template"]?["metadata"]?["labels"])
        let spec = try #require(try object("Deployment", in: objects)["spec"])
        #expect(spec["selector"]?["matchLabels"] == labels)
        let spreads = try #require(spec["template"]?["spec"]?["topologySpreadConstraints"]?.items)
        #expect(
            spreads.count == 2 && spreads.allSatisfy { $0["labelSelector"]?["matchLabels"] == labels })
        #expect(
            try object("PodDisruptionBudget", in: objects)["spec"]?["selector"]?["matchLabels"] == labels)
        #expect(
            try object("NetworkPolicy", in: objects)["spec"]?["podSelector"]?["matchLabels"] == labels)
        for name in ["january-token-endpoint", "january-token-endpoint-management"] {
            let service = try #require(try object("Service", name, in: objects)["spec"])
            #expect(service["selector"] == labels)
            #expect(service["type"] == nil, "inside the cluster only")
        }
        let scaler = try #require(try object("HorizontalPodAutoscaler", in: objects)["spec"])
        #expect(scaler["scaleTargetRef"]?["name"]?.text == "january-token-endpoint")
        #expect(scaler["minReplicas"] == spec["replicas"])
    }

    /// The one port is for the ingress, the other for who is meant; nothing is for everybody.
    @Test func theManagementPortIsNotForTheIngress() throws {
        let policy = try #require(try object("NetworkPolicy", in: objects())["spec"])
        #expect(policy["policyTypes"] == .list([.text("Ingress"), .text("Egress")]))
        let rules = try #require(policy["ingress"]?.items)
        #expect(rules.count == 2)
        for rule in rules {
            let ports = try #require(rule["ports"]?.items).compactMap { $0["port"]?.number }
            let from = try #require(rule["from"]?.items)
            #expect(
                !from.isEmpty
                    && from.allSatisfy { $0["namespaceSelector"] != nil || $0["podSelector"] != nil })
            let isIngress = from.contains {
                $0["namespaceSelector"]?["matchLabels"]
                    == .mapping(["kubernetes.io/metadata.name": .text("ingress-nginx")])
            }
            #expect(ports == [isIngress ? 8787 : 8788])
        }
    }

    /// The files that the pods start with, with files in the place of their secrets.
    @Test(arguments: ["base", "sqlite"])
    func theirConfigurationIsAcceptedByTheProgram(overlay: String) async throws {
        let manifest = try DeploymentTests.text(Self.folder + "base/kustomization.yaml")
        try await onOwnThread {
            let folder =
                FileManager.default.temporaryDirectory.appending(
                    path: "january-kubernetes-\(UUID().uuidString)"
                ).path + "/"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: folder) }
            var text = try DeploymentTests.text(Self.folder + overlay + "/config.yaml")
            for secret in ["january_api_key", "management_token", "log_hash_secret"] {
                #expect(manifest.contains("--from-file=\(secret)"))
                #expect(text.contains("/run/secrets/january/\(secret)"))
                try ServerScenario.write(folder + secret, "sk-" + String(repeating: "0", count: 40))
            }
            text = text.replacing("/run/secrets/january/", with: folder)
            try ServerScenario.write(folder + "config.yaml", text)
            let run = try Finished(["check", "--config", folder + "config.yaml"])
            #expect(run.errors == "")
            #expect(run.code == 0)
        }
    }
}

/// YAML with the types that Kubernetes reads in it.
indirect enum YAMLValue: Equatable {
    case null
    case text(String)
    case integer(Int)
    case boolean(Bool)
    case list([YAMLValue])
    case mapping([String: YAMLValue])

    /// Every document of a file. What readers of YAML disagree about is a failure.
    static func documents(_ text: String, _ name: String) throws -> [YAMLValue] {
        try ("\n" + text).components(separatedBy: "\n---\n").compactMap { document in
            let tree = YAMLTree(Array(document.utf8))
            guard tree.isComplete, tree.problems.isEmpty else {
                throw Child.Failure(what: "\(name): \(tree.problems)")
            }
            return tree.root.members.isEmpty ? nil : try YAMLValue(.mapping(tree.root), name)
        }
    }

    private init(_ content: ConfigNode.Content, _ name: String) throws {
        switch content {
        case .scalar(let text, .plain):
            switch text {
            case "", "~", "null": self = .null
            case "true": self = .boolean(true)
            case "false": self = .boolean(false)
            default:
                if ["yes", "no", "on", "off", "y", "n"].contains(text.lowercased()) {
                    throw Child.Failure(what: "\(name): \(text) is a truth value to some")
                }
                if text.hasPrefix("0"), text.count > 1, text.allSatisfy(\.isNumber) {
                    throw Child.Failure(what: "\(name): \(text) is octal to some")
                }
                self = Int(text).map { .integer($0) } ?? .text(text)
            }
        case .scalar(let text, _): self = .text(text)
        case .sequence(let nodes): self = .list(try nodes.map { try YAMLValue($0.content, name) })
        case .mapping(let mapping):
            let pairs = try mapping.members.map { ($0.key, try YAMLValue($0.value.content, name)) }
            self = .mapping(Dictionary(pairs) { first, _ in first })
        case .secret, .refused: throw Child.Failure(what: name)
        }
    }

    subscript(key: String) -> YAMLValue? {
        if case .mapping(let members) = self { members[key] } else { nil }
    }
    var items: [YAMLValue]? { if case .list(let items) = self { items } else { nil } }
    var text: String? { if case .text(let text) = self { text } else { nil } }
    var number: Int? { if case .integer(let number) = self { number } else { nil } }

    var kind: String {
        switch self {
        case .null: "nothing"
        case .text: "a string"
        case .integer: "an integer"
        case .boolean: "a boolean"
        case .list: "a list"
        case .mapping: "a mapping"
        }
    }
}
