/// "Did you mean": the nearest of a few known words.
package enum Suggestion {
    /// The nearest candidate when it is near enough to be a slip of the pen: one edit, or one in three letters.
    package static func nearest(to word: String, in candidates: some Sequence<String>) -> String? {
        guard word.utf8.count <= 64 else { return nil }
        let allowed = max(1, word.utf8.count / 3)
        var best: (word: String, distance: Int)?
        for candidate in candidates {
            let distance = editDistance(Array(word.utf8), Array(candidate.utf8))
            // A word that is replaced altogether is another word.
            guard distance <= allowed, distance < min(word.utf8.count, candidate.utf8.count) else { continue }
            if distance < best?.distance ?? .max { best = (candidate, distance) }
        }
        return best?.word
    }

    /// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
    static func editDistance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        if left.isEmpty || right.isEmpty { return max(left.count, right.count) }
        var beforeLast = [Int](repeating: 0, count: right.count + 1)
        var last = Array(0...right.count)
        for row in 1...left.count {
            var current = [row]
            current.reserveCapacity(right.count + 1)
            for column in 1...right.count {
                let replaced = last[column - 1] + (left[row - 1] == right[column - 1] ? 0 : 1)
                var distance = min(last[column] + 1, current[column - 1] + 1, replaced)
                if row > 1, column > 1, left[row - 1] == right[column - 2], left[row - 2] == right[column - 1] {
                    distance = min(distance, beforeLast[column - 2] + 1)
                }
                current.append(distance)
            }
            (beforeLast, last) = (last, current)
        }
        return last[right.count]
    }
}
