import Primitives
import Testing

@testable import Redis

@Suite struct RedisCommandTests {
    private func encoded(_ command: RedisCommand) -> String {
        var buffer: [UInt8] = Array("before ".utf8)
        #expect(command.encode(into: &buffer))
        return String(decoding: buffer, as: UTF8.self)
    }

    @Test func aCommandIsAnArrayOfItsArguments() {
        #expect(encoded(RedisCommand("PING")) == "before *1\r\n$4\r\nPING\r\n")
        var command = RedisCommand("SET")
        command.append("key")
        command.append([UInt8]())
        command.append(Int64(-12))
        command.append(Array("a\r\n\0b".utf8))
        command.append(Secret("hush"))
        #expect(
            encoded(command) == "before *6\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n$3\r\n-12\r\n$5\r\na\r\n\0b\r\n$4\r\nhush\r\n")
        #expect(encoded(RedisCommand("DEL", texts: ["ä", ""])) == "before *3\r\n$3\r\nDEL\r\n$2\r\nä\r\n$0\r\n\r\n")
    }

    /// FIPS 180-4 examples; the lengths around the end of a block.
    @Test(arguments: [
        ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"), ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        ),
        (String(repeating: "a", count: 1_000_000), "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
    ])
    func aScriptIsNamedByTheSHA1OfItsText(text: String, digest: String) {
        #expect(String(decoding: RedisScript(text).digest, as: UTF8.self) == digest)
    }

    @Test(arguments: [
        ("NOSCRIPT No matching script. Please use EVAL.", RedisServerError.noScript),
        ("READONLY You can't write against a read only replica. script: 0f, on @user_script:1.", .readOnly),
        ("ERR Error running script (call to f_0f): @user_script:1: @user_script: 1: -READONLY You can't write", .readOnly),
        ("OOM command not allowed when used memory > 'maxmemory'.", .outOfMemory),
        ("ERR Error running script (call to f_0f): @user_script:1: -OOM command not allowed", .outOfMemory),
        ("LOADING Redis is loading the dataset in memory", .loading), ("NOAUTH Authentication required.", .notAuthenticated),
        ("WRONGPASS invalid username-password pair or user is disabled.", .wrongPassword),
        ("ERR invalid password", .wrongPassword),
        (
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
            .wrongPassword
        ),
        ("ERR Client sent AUTH, but no password is set", .wrongPassword),
        ("NOPERM this user has no permissions to run the 'evalsha' command", .noPermission),
        ("ERR The user executing the script can't run this command or subcommand script: 0f, on @user_script:1.", .noPermission),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", .busy),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", .noPrimary),
        ("NOREPLICAS Not enough good replicas to write.", .noPrimary),
        ("MISCONF Redis is configured to save RDB snapshots", .cannotPersist),
        ("MOVED 3999 127.0.0.1:6381", .moved), ("CROSSSLOT Keys in request don't hash to the same slot", .moved),
        ("CLUSTERDOWN The cluster is down", .clusterDown), ("ERR max number of clients reached", .tooManyClients),
        ("DENIED Redis is running in protected mode", .denied), ("WRONGTYPE Operation against a key", .wrongType),
        ("ERR unknown command 'x', with args beginning with: 'READONLY' ", .other), ("", .other), ("READONLYX", .other),
    ])
    func anErrorReplyIsToldByItsFirstWord(text: String, expected: RedisServerError) {
        #expect(RedisServerError(text: Array(text.utf8)) == expected)
    }

    @Test func everyReasonIsItsOwn() {
        let reasons = RedisServerError.allCases.map(\.reason.description)
        #expect(Set(reasons).count == reasons.count)
    }
}
