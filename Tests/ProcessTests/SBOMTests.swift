import Foundation
import TestSupport
import Testing

private let toolsAreThere = ["/usr/bin/python3", "/usr/bin/dpkg-query", "/usr/bin/ldd"].allSatisfy {
    FileManager.default.isExecutableFile(atPath: $0)
}

/// What `scripts/sbom` writes of a program that is really there, held to the rules of SPDX 2.3 that apply to it.
@Suite(.serialized, .enabled(if: toolsAreThere, "python3 or dpkg-query is not installed"))
struct SBOMTests {
    private static let environment = ["SOURCE_DATE_EPOCH": "1700000000", "SWIFT_VERSION": "swift-6.3.1-RELEASE"]

    private static func sbom(_ programs: [String], environment: [String: String] = environment) throws -> Finished {
        let script = DeploymentTests.root.appending(path: "scripts/sbom").path
        return try Finished([script, "--version", "1.2.3"] + programs, environment: environment, program: "/usr/bin/python3")
    }

    @Test func theDocumentKeepsTheRulesAndNamesWhatIsLoaded() async throws {
        try await onOwnThread {
            let run = try Self.sbom([Child.program])
            #expect(run.errors == "")
            #expect(run.code == 0)
            #expect(try SPDXRules.problems(run.output) == [])
            // The five libraries, the C library, and both parts of Swift.
            let document = try SPDXRules.object(run.output)
            let packages = try #require(document["packages"] as? [[String: Any]])
            let names = Set(packages.compactMap { $0["name"] as? String })
            for prefix in ["january-token-endpoint", "libssl3", "zlib1g", "libyaml-0-2", "libsqlite3-0", "libhiredis", "libc6"] {
                #expect(names.contains { $0.hasPrefix(prefix) }, "\(prefix): \(names)")
            }
            let versions = packages.filter { ["swift", "swift-corelibs-libdispatch"].contains($0["name"] as? String) }
                .compactMap { $0["versionInfo"] as? String }
            #expect(versions == ["6.3.1", "6.3.1"])
            #expect((document["creationInfo"] as? [String: Any])?["created"] as? String == "2023-11-14T22:13:20Z")
            // The program is related to each of them.
            let related = try #require(document["relationships"] as? [[String: String]])
            #expect(related.count == packages.count)
        }
    }

    @Test func theSameInputGivesTheSameBytesAndAnotherOneAnotherNamespace() async throws {
        try await onOwnThread {
            let first = try Self.sbom([Child.program])
            #expect(try Self.sbom([Child.program]).output == first.output)
            let later = try Self.sbom(
                [Child.program], environment: Self.environment.merging(["SOURCE_DATE_EPOCH": "1700000001"]) { $1 })
            func namespace(_ run: Finished) throws -> String {
                try #require(try SPDXRules.object(run.output)["documentNamespace"] as? String)
            }
            #expect(try namespace(first) != namespace(later))
        }
    }

    /// A document that leaves something out is worse than none.
    @Test func aProgramThatCannotBeReadMakesNoDocument() async throws {
        try await onOwnThread {
            let run = try Self.sbom(["/nonexistent"])
            #expect(run.code != 0)
            #expect(run.output == "")
        }
    }

    private static let mutations: [(old: String, new: String, problem: String)] = [
        ("\"SPDX-2.3\"", "\"SPDX-2.2\"", "spdxVersion"), ("\"CC0-1.0\"", "\"MIT\"", "dataLicense"),
        ("\"documentNamespace\": \"https:", "\"documentNamespace\": \"", "documentNamespace"),
        ("2023-11-14T22:13:20Z", "2023-11-14", "creationInfo.created"), ("\"Tool: ", "\"", "creationInfo.creators"),
        ("\"packages\"", "\"package\"", "package"), ("\"supplier\": \"Organization: ", "\"supplier\": \"", "supplier"),
        ("\"downloadLocation\": \"https:", "\"downloadLocation\": \"", "downloadLocation"),
        ("\"filesAnalyzed\": false", "\"filesAnalyzed\": true", "filesAnalyzed"),
        ("\"primaryPackagePurpose\": \"LIBRARY\"", "\"primaryPackagePurpose\": \"LIB\"", "primaryPackagePurpose"),
        ("\"algorithm\": \"SHA256\"", "\"algorithm\": \"SHA1\"", "checksums"), ("pkg:deb/debian/", "debian/", "externalRefs"),
        ("PACKAGE-MANAGER", "PACKAGE_MANAGER", "externalRefs"), ("\"DYNAMIC_LINK\"", "\"LINKS\"", "relationshipType"),
        ("\"relatedSpdxElement\": \"SPDXRef-Package-libc6\"", "\"relatedSpdxElement\": \"SPDXRef-x\"", "relatedSpdxElement"),
        ("\"SPDXID\": \"SPDXRef-Package-libc6\"", "\"SPDXID\": \"SPDXRef-Package_libc6\"", "SPDXID"),
        ("\"DESCRIBES\"", "\"CONTAINS\"", "DESCRIBES"),
        ("\"copyrightText\"", "\"copyRight\"", "copyRight"),
        ("\"licenseDeclared\": \"Zlib\"", "\"licenseDeclared\": \"zlib licence\"", "licenseDeclared"),
    ]

    /// The check itself can fail.
    @Test func everyRuleFindsADocumentThatBreaksIt() async throws {
        try await onOwnThread {
            let good = try Self.sbom([Child.program]).output
            for (old, new, problem) in Self.mutations {
                let bad = good.replacing(old, with: new)
                #expect(bad != good, "\(old)")
                #expect(try SPDXRules.problems(bad).contains { $0.contains(problem) }, "\(old)")
            }
        }
    }
}

/// SPDX 2.3, chapters 6, 7 and 11, as far as documents without files and snippets go. What is not one of the members here is a problem, too.
enum SPDXRules {
    static func object(_ text: String) throws -> [String: Any] {
        guard let object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] else {
            throw Child.Failure(what: "no object")
        }
        return object
    }

    static func problems(_ text: String) throws -> [String] {
        let document = try object(text)
        var found = unknown(
            document,
            ["spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages", "relationships"])
        func expect(_ holds: Bool, _ problem: String) { if !holds { found.append(problem) } }
        expect(document["spdxVersion"] as? String == "SPDX-2.3", "spdxVersion")
        expect(document["dataLicense"] as? String == "CC0-1.0", "dataLicense")
        expect(document["SPDXID"] as? String == "SPDXRef-DOCUMENT", "SPDXID")
        expect(!(document["name"] as? String ?? "").isEmpty, "name")
        // 6.5: an absolute URI without a fragment.
        expect((document["documentNamespace"] as? String)?.wholeMatch(of: /https?:\/\/[^#\s]+/) != nil, "documentNamespace")
        let creation = document["creationInfo"] as? [String: Any] ?? [:]
        found += unknown(creation, ["created", "creators"])
        expect(
            (creation["created"] as? String)?.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/) != nil, "creationInfo.created")
        let creators = creation["creators"] as? [String] ?? []
        expect(
            !creators.isEmpty && creators.allSatisfy { $0.wholeMatch(of: /(Tool|Person|Organization): \S.*/) != nil },
            "creationInfo.creators")
        let packages = document["packages"] as? [[String: Any]] ?? []
        expect(!packages.isEmpty, "packages")
        for package in packages { found += problems(of: package) }
        let ids = packages.compactMap { $0["SPDXID"] as? String }
        expect(Set(ids).count == ids.count, "SPDXID is there twice")
        return found + relationships(document, known: Set(ids + ["SPDXRef-DOCUMENT"]))
    }

    private static func unknown(_ object: [String: Any], _ known: Set<String>) -> [String] {
        object.keys.filter { !known.contains($0) }.map { "unknown \($0)" }
    }

    private static func problems(of package: [String: Any]) -> [String] {
        let name = package["name"] as? String ?? ""
        var found = unknown(
            package,
            [
                "SPDXID", "name", "versionInfo", "packageFileName", "supplier", "downloadLocation", "filesAnalyzed", "checksums",
                "homepage",
                "sourceInfo", "summary", "licenseConcluded", "licenseDeclared", "copyrightText", "primaryPackagePurpose",
                "externalRefs",
            ])
        func expect(_ holds: Bool, _ problem: String) { if !holds { found.append("\(name): \(problem)") } }
        expect(!name.isEmpty && !(package["versionInfo"] as? String ?? "").isEmpty, "name, versionInfo")
        expect((package["SPDXID"] as? String)?.wholeMatch(of: /SPDXRef-[A-Za-z0-9.-]+/) != nil, "SPDXID")
        let location = package["downloadLocation"] as? String ?? ""
        expect(
            ["NOASSERTION", "NONE"].contains(location) || location.wholeMatch(of: /(git\+)?https?:\/\/\S+/) != nil,
            "downloadLocation")
        // 7.8: otherwise a verification code over the files is required.
        expect(package["filesAnalyzed"] as? Bool == false, "filesAnalyzed")
        if let supplier = package["supplier"] {
            expect((supplier as? String)?.wholeMatch(of: /NOASSERTION|(Person|Organization): \S.*/) != nil, "supplier")
        }
        if let homepage = package["homepage"] {
            expect((homepage as? String)?.wholeMatch(of: /https?:\/\/\S+/) != nil, "homepage")
        }
        // Annex D: identifiers of the licence list, WITH, AND, OR; those that the script knows.
        let licences = [
            "Apache-2.0", "Zlib", "MIT", "BSD-3-Clause", "blessing", "LGPL-2.1-or-later",
            "GPL-3.0-or-later WITH GCC-exception-3.1",
            "Apache-2.0 WITH Swift-exception", "NOASSERTION", "NONE",
        ]
        for member in ["licenseConcluded", "licenseDeclared"] {
            expect(licences.contains(package[member] as? String ?? ""), member)
        }
        expect(!(package["copyrightText"] as? String ?? "").isEmpty, "copyrightText")
        let purposes = [
            "APPLICATION", "FRAMEWORK", "LIBRARY", "CONTAINER", "OPERATING-SYSTEM", "DEVICE", "FIRMWARE", "SOURCE", "ARCHIVE",
            "FILE", "INSTALL",
            "OTHER",
        ]
        expect(purposes.contains(package["primaryPackagePurpose"] as? String ?? ""), "primaryPackagePurpose")
        for checksum in package["checksums"] as? [[String: String]] ?? [] {
            let digits = ["SHA1": 40, "SHA256": 64, "SHA512": 128][checksum["algorithm"] ?? ""]
            let value = checksum["checksumValue"] ?? ""
            expect(value.count == digits && value.wholeMatch(of: /[0-9a-f]+/) != nil && checksum.count == 2, "checksums")
        }
        for reference in package["externalRefs"] as? [[String: String]] ?? [] {
            expect(
                reference["referenceCategory"] == "PACKAGE-MANAGER" && reference["referenceType"] == "purl"
                    && reference["referenceLocator"]?.wholeMatch(
                        of: /pkg:deb\/debian\/[a-z0-9.%A-F-]+@[A-Za-z0-9.~%_-]+\?arch=[a-z0-9]+&distro=[a-z]+/) != nil
                    && reference.count == 3,
                "externalRefs")
        }
        return found
    }

    private static func relationships(_ document: [String: Any], known: Set<String>) -> [String] {
        var found: [String] = []
        let all = document["relationships"] as? [[String: String]] ?? []
        for one in all {
            for member in ["spdxElementId", "relatedSpdxElement"] where !known.contains(one[member] ?? "") {
                found.append("\(member): \(one[member] ?? "")")
            }
            // Of the closed list of 11.1 those that are used.
            if !["DESCRIBES", "CONTAINS", "DYNAMIC_LINK", "STATIC_LINK"].contains(one["relationshipType"] ?? "") || one.count != 3
            {
                found.append("relationshipType: \(one["relationshipType"] ?? "")")
            }
        }
        if !all.contains(where: { $0["relationshipType"] == "DESCRIBES" && $0["spdxElementId"] == "SPDXRef-DOCUMENT" }) {
            found.append("the document DESCRIBES nothing")
        }
        return found
    }
}
