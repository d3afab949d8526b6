import CZlib
import HTTPMessage
import TestSupport
import Testing

@testable import HTTPClient

/// One gzip member, made by zlib itself.
func gzip(_ bytes: [UInt8]) -> [UInt8] {
    var stream = z_stream()
    guard
        deflateInit2_(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
            == Z_OK
    else { return [] }
    defer { deflateEnd(&stream) }
    var input = bytes
    var output = [UInt8](repeating: 0, count: bytes.count + 128)
    let count = input.withUnsafeMutableBufferPointer { input in
        output.withUnsafeMutableBufferPointer { output in
            stream.next_in = input.baseAddress
            stream.avail_in = UInt32(input.count)
            stream.next_out = output.baseAddress
            stream.avail_out = UInt32(output.count)
            return deflate(&stream, Z_FINISH) == Z_STREAM_END ? output.count - Int(stream.avail_out) : 0
        }
    }
    return Array(output[..<count])
}

@Suite struct ContentDecoderTests {
    private static let text = Array("{\"token\": \"ct-abc\", \"scopes\": []}".utf8)

    private static func decode(_ body: [UInt8], _ codings: [String], maxBytes: Int = 1000) -> Result<
        [UInt8], ContentDecoder.Failure
    > {
        var block = FieldBlock()
        for coding in codings { try? block.append(.contentEncoding, coding) }
        let fields = Fields(block)
        return Result { () throws(ContentDecoder.Failure) in
            try ContentDecoder.decode(body, fields: fields, maxBytes: maxBytes)
        }
    }

    @Test(arguments: [["gzip"], ["GZip"], ["x-gzip"], ["identity, gzip"], ["identity", "gzip"], [" gzip ,"]])
    func gzipIsUndone(codings: [String]) {
        #expect(Self.decode(gzip(Self.text), codings) == .success(Self.text))
    }

    @Test(arguments: [[], ["identity"], [""]]) func noCodingLeavesTheContentAlone(codings: [String]) {
        #expect(Self.decode(Self.text, codings) == .success(Self.text))
    }

    @Test(arguments: [["br"], ["deflate"], ["zstd"], ["gzip, gzip"], ["gzip", "gzip"], ["gzip, br"], ["gzip;q=1"]])
    func otherCodingsAreRefused(codings: [String]) {
        #expect(Self.decode(gzip(Self.text), codings) == .failure(.undecodable))
    }

    @Test func gzipCutAnywhereOrFollowedByAnythingIsRefused() {
        let whole = gzip(Self.text)
        for cut in 1..<whole.count {
            #expect(Self.decode(Array(whole[..<cut]), ["gzip"]) == .failure(.undecodable), "cut at \(cut)")
        }
        #expect(Self.decode(whole + [0], ["gzip"]) == .failure(.undecodable))
        var damaged = whole
        damaged[damaged.count - 6] ^= 1
        #expect(Self.decode(damaged, ["gzip"]) == .failure(.undecodable))
        #expect(Self.decode(Self.text, ["gzip"]) == .failure(.undecodable))
    }

    @Test func severalMembersAreOneContent() {
        #expect(Self.decode(gzip(Self.text) + gzip(Self.text), ["gzip"]) == .success(Self.text + Self.text))
    }

    @Test(arguments: [
        (999, Result<Int, ContentDecoder.Failure>.failure(.tooLarge)), (1000, .success(1000)), (1001, .success(1000)),
    ])
    func decodedContentIsBounded(maxBytes: Int, expected: Result<Int, ContentDecoder.Failure>) {
        let body = gzip([UInt8](repeating: 0x20, count: 1000))
        #expect(Self.decode(body, ["gzip"], maxBytes: maxBytes).map(\.count) == expected)
    }

    /// 10 MB of zeros come as 10 KB: stopped at the first piece over the bound.
    @Test func aBombIsStoppedEarly() {
        let bomb = gzip([UInt8](repeating: 0, count: 10_000_000))
        #expect(bomb.count < 20_000)
        #expect(Self.decode(bomb, ["gzip"], maxBytes: 65536) == .failure(.tooLarge))
    }

    /// Contents of every kind, in one to three members: what comes out is what went in, whatever the bound allows.
    @Test func randomContentsComeOutAsTheyWentIn() {
        let seed: UInt64 = 1_952
        var random = SeededRandom(seed: seed)
        for round in 0..<400 {
            var content: [UInt8] = []
            var body: [UInt8] = []
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let part = Self.randomContent(&random)
                content += part
                body += gzip(part)
            }
            let fits = Self.decode(body, ["gzip"], maxBytes: content.count)
            #expect(fits == .success(content), "seed \(seed), round \(round)")
            if content.count > 0 {
                let tooSmall = Self.decode(body, ["gzip"], maxBytes: content.count - 1)
                #expect(tooSmall == .failure(.tooLarge), "seed \(seed), round \(round)")
            }
        }
    }

    /// A changed or cut body is refused, or it still is what was sent (a bit of the header that means nothing): never other content.
    @Test func changedBodiesNeverDecodeToSomethingElse() {
        let seed: UInt64 = 1_951
        var random = SeededRandom(seed: seed)
        for round in 0..<Effort.rounds(4_000) {
            let content = Self.randomContent(&random)
            var body = gzip(content)
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: 0..<body.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: body[index] ^= UInt8(1 << Int.random(in: 0..<8, using: &random))
                case 1: body[index] = UInt8.random(in: 0...255, using: &random)
                default: body = Array(body[..<max(1, index)])
                }
            }
            switch Self.decode(body, ["gzip"], maxBytes: 100_000) {
            case .success(let decoded): #expect(decoded == content, "seed \(seed), round \(round)")
            case .failure(let failure): #expect([.undecodable, .tooLarge].contains(failure), "seed \(seed), round \(round)")
            }
        }
    }

    private static func randomContent(_ random: inout SeededRandom) -> [UInt8] {
        let count = Int.random(in: 0...3_000, using: &random)
        // From what compresses to nothing to what does not compress at all.
        let highest = UInt8([0, 1, 15, 255].randomElement(using: &random) ?? 255)
        return (0..<count).map { _ in UInt8.random(in: 0...highest, using: &random) }
    }
}
