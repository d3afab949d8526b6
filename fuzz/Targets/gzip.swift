import HTTPMessage
import Primitives

@testable import HTTPClient

// Compressed content of an upstream: bounded, whatever a small body stands for, and either whole or refused.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = input(start, count)
    var contents: [[UInt8]?] = []
    for maxBytes in [0, 64, 4096] {
        do {
            let content = try ContentDecoder.gunzip(bytes, maxBytes: maxBytes)
            require(content.count <= maxBytes, "more than allowed")
            contents.append(content)
        } catch {
            contents.append(nil)
        }
    }
    for (smaller, larger) in zip(contents, contents.dropFirst()) {
        if let smaller { require(smaller == larger, "a larger bound changes the content") }
    }
    if let content = contents[2], count > 0 {
        // Two members behind one another are one content (RFC 1952 section 2.2).
        let twice = try? ContentDecoder.gunzip(bytes + bytes, maxBytes: 8192)
        require(twice == content + content, "two members")
        // Cut short it is never whole, but for members that were whole before.
        if let shorter = try? ContentDecoder.gunzip(Array(bytes.dropLast()), maxBytes: 4096) {
            require(content.starts(with: shorter), "cut short")
        }
    }
    return 0
}
