import Foundation
import Primitives
import Testing

@testable import Configuration

/// A folder of its own for each test, removed afterwards.
private final class Folder {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.appendingPathComponent("configuration-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func write(_ name: String, _ bytes: [UInt8], mode: Int = 0o600) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: "\(path)/\(name)"))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: "\(path)/\(name)")
    }
}

@Suite struct ConfigFilesTests {
    private func load(_ folder: Folder, _ text: String, environment: [String: String] = [:]) throws -> ConfigReader {
        try folder.write("config.yaml", Array(text.utf8))
        return ConfigReader.load(file: "\(folder.path)/config.yaml", environment: environment)
    }

    @Test(arguments: [
        ("hush", "hush"), ("hush\n", "hush"), ("hush\r\n", "hush"), ("hush\n\n", "hush\n"), (" hush ", " hush "),
        ("\nhush", "\nhush"),
        ("hush\r", "hush\r"),
    ])
    func oneNewlineAtTheEndIsNoPartOfTheSecret(content: String, expected: String) throws {
        let folder = try Folder()
        try folder.write("key", Array(content.utf8))
        let reader = try load(folder, "secret_file: key")
        let secret = try #require(reader.root.secretFile("secret_file"))
        #expect(secret.secret.copyBytes() == Array(expected.utf8))
        #expect(secret.path == "\(folder.path)/key")
        #expect(reader.problems == [])
        #expect(reader.warnings == [])
    }

    @Test(arguments: [0, 1, 2])
    func aSecretHasAtMost64KiB(newlineCount: Int) throws {
        let folder = try Folder()
        let newline = Array("\r\n".utf8.suffix(newlineCount))
        try folder.write("fits", [UInt8](repeating: 0x61, count: 65_536) + newline)
        try folder.write("over", [UInt8](repeating: 0x61, count: 65_537) + newline)
        let reader = try load(folder, "a_file: fits\nb_file: over")
        #expect(reader.root.secretFile("a_file")?.secret.byteCount == 65_536)
        #expect(reader.root.secretFile("b_file") == nil)
        let name = "\(folder.path)/config.yaml"
        #expect(reader.problems.map(\.description) == ["\(name):2: b_file: \"\(folder.path)/over\" has more than 65536 bytes"])
    }

    @Test func whatCannotBeReadIsNamedWithTheSystemsReason() throws {
        let folder = try Folder()
        try folder.write("empty", Array("\n".utf8))
        try folder.write("fine.key", Array("x".utf8))
        let reader = try load(
            folder,
            """
            a_file: missing.key
            b_file: .
            c_file: empty
            d_files: [fine.key, gone.key]
            e_file: fine.key/below
            f_file: ""
            g_file: [x]
            h_file: "with\\0nul"
            """)
        let root = reader.root
        for key in ["a_file", "b_file", "c_file", "e_file", "f_file", "g_file", "h_file"] { #expect(root.secretFile(key) == nil) }
        #expect(root.secretFiles("d_files").count == 1)
        root.problem("a_file", "is required")
        let name = "\(folder.path)/config.yaml"
        #expect(
            reader.problems.map(\.description) == [
                "\(name):1: a_file: cannot read \"\(folder.path)/missing.key\": No such file or directory",
                "\(name):2: b_file: cannot read \"\(folder.path)/.\": it is neither a regular file nor a pipe",
                "\(name):3: c_file: \"\(folder.path)/empty\" is empty",
                "\(name):4: d_files[1]: cannot read \"\(folder.path)/gone.key\": No such file or directory",
                "\(name):5: e_file: cannot read \"\(folder.path)/fine.key/below\": Not a directory",
                "\(name):6: f_file: must be the name of a file (got \"\")",
                "\(name):7: g_file: must be the name of a file (got a list)",
                "\(name):8: h_file: cannot read the file named here: its name holds a NUL character",
            ])
    }

    /// Somebody writes the secret where the name of its file belongs; the message must not repeat it.
    @Test(arguments: ["sk-live-abcdef.ghi", "c2VjcmV0/c2VjcmV0+c2VjcmV0==", "hunter2", "eyJhbGciOiJIUzI1NiJ9.e30.x"])
    func aSecretInPlaceOfAFileNameIsNotShown(value: String) throws {
        let reader = ConfigReader.load(file: nil, environment: ["JANUARY_API_KEY_FILE": value])
        #expect(reader.root.section("january").secretFile("api_key_file") == nil)
        #expect(
            reader.problems.map(\.description) == [
                "environment: JANUARY_API_KEY_FILE: cannot read the file named here: No such file or directory"
            ])
    }

    @Test(arguments: [(0o600, false), (0o640, false), (0o604, true), (0o644, true)])
    func aSecretThatOthersCanReadIsAWarning(mode: Int, isWarning: Bool) throws {
        let folder = try Folder()
        try folder.write("key", Array("x".utf8), mode: mode)
        let reader = try load(folder, "a_file: key\nb_files: [key]")
        #expect(reader.root.secretFile("a_file") != nil)
        #expect(reader.root.secretFiles("b_files").count == 1)
        #expect(reader.problems == [])
        let name = "\(folder.path)/config.yaml"
        let text = "\"\(folder.path)/key\" can be read by every user of this machine; chmod o-r it"
        #expect(
            reader.warnings.map(\.description)
                == (isWarning ? ["\(name):1: a_file: \(text)", "\(name):2: b_files: \(text)"] : []))
    }

    @Test func otherFilesAreReadWithALimitOfTheirOwn() throws {
        let folder = try Folder()
        try folder.write("set.json", Array("12345678".utf8), mode: 0o644)
        let reader = try load(folder, "a: set.json\nb: set.json\nc: [set.json, ./set.json]\nd: none.json")
        #expect(reader.root.file("a", maxBytes: 8) == ConfigFile(path: "\(folder.path)/set.json", bytes: Array("12345678".utf8)))
        #expect(reader.root.file("b", maxBytes: 7) == nil)
        #expect(reader.root.files("c", maxBytes: 8).count == 2)
        #expect(reader.root.filePath("d") == "\(folder.path)/none.json")
        #expect(reader.warnings == [])
        let name = "\(folder.path)/config.yaml"
        #expect(
            reader.problems.map(\.description) == [
                "\(name):2: b: cannot read \"\(folder.path)/set.json\": it has more than 7 bytes"
            ])
    }

    @Test func namesInVariablesAreRelativeToTheWorkingDirectory() throws {
        let folder = try Folder()
        let reader = try load(folder, "state: \"sqlite:x.db\"\nother: y", environment: ["LOG_LEVEL": "z"])
        #expect(reader.root.resolve("x.db", for: "state") == "\(folder.path)/x.db")
        #expect(reader.root.resolve("/x.db", for: "state") == "/x.db")
        #expect(reader.root.section("log").resolve("z", for: "level") == "\(FileManager.default.currentDirectoryPath)/z")
    }

    @Test func aPipeIsReadToItsEnd() throws {
        let pipe = Pipe()
        try pipe.fileHandleForWriting.write(contentsOf: Data("listen: x\n".utf8))
        try pipe.fileHandleForWriting.close()
        let name = "/dev/fd/\(pipe.fileHandleForReading.fileDescriptor)"
        let reader = ConfigReader.load(file: name, environment: [:])
        #expect(reader.root.string("listen") == "x")
        #expect(reader.problems == [])
    }

    @Test func aFileThatCannotBeReadIsTheOnlyProblemOfTheFile() throws {
        let folder = try Folder()
        let reader = ConfigReader.load(file: "\(folder.path)/none.yaml", environment: ["PORT": "x"])
        _ = reader.root.requiredString("listen")
        reader.root.finish()
        #expect(
            reader.problems.map(\.description) == [
                "\(folder.path)/none.yaml: cannot read the file: No such file or directory",
                "environment: PORT: must be a port number from 0 to 65535 (got \"x\")",
            ])
        try folder.write("big.yaml", [UInt8](repeating: UInt8(ascii: "#"), count: 1 << 20 + 1))
        #expect(
            ConfigReader.load(file: "\(folder.path)/big.yaml", environment: [:]).problems.map(\.description) == [
                "\(folder.path)/big.yaml: cannot read the file: it has more than 1048576 bytes"
            ])
    }

    @Test func theProcessEnvironmentIsReadWhole() {
        #expect(FileBytes.processEnvironment()["PATH"] == ProcessInfo.processInfo.environment["PATH"])
    }
}
