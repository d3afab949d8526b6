// Common to the targets: an oracle that stops the process, input as bytes, and cuts.

/// The oracle: a false statement stops the process, and libFuzzer keeps the input.
func require(_ holds: Bool, _ what: @autoclosure () -> String, line: Int = #line) {
    if !holds { fatalError("oracle, line \(line): \(what())") }
}

func input(_ start: UnsafePointer<UInt8>, _ count: Int) -> [UInt8] { Array(UnsafeBufferPointer(start: start, count: count)) }

/// Where an input is cut: at every byte when it is short, else at places that follow from its own bytes.
func cuts(_ bytes: [UInt8], everyByteUpTo limit: Int = 512) -> [Int] {
    if bytes.count <= limit { return Array(1..<max(1, bytes.count)) }
    var state: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in bytes.prefix(64) { state = (state ^ UInt64(byte)) &* 0x100_0000_01b3 }
    var places: Set<Int> = []
    for _ in 0..<48 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        places.insert(1 + Int(state >> 33) % (bytes.count - 1))
    }
    return places.sorted()
}

/// A few places that follow from the bytes: over many inputs every place has its turn.
func someCuts(_ bytes: [UInt8], _ count: Int = 4) -> [Int] {
    guard bytes.count > 1 else { return [] }
    var state: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in bytes.suffix(256) { state = (state ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return (0..<count).map { _ in
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return 1 + Int(state >> 33) % (bytes.count - 1)
    }
}

/// Pieces of 1, 2, 3, 1, 2, 3 … bytes, and larger ones for long inputs.
func pieces(_ bytes: [UInt8]) -> [Range<Int>] {
    var ranges: [Range<Int>] = []
    let step = max(1, bytes.count / 256)
    var start = 0
    while start < bytes.count {
        let end = min(bytes.count, start + step * (1 + ranges.count % 3))
        ranges.append(start..<end)
        start = end
    }
    return ranges
}

func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }
