/// Why a message was refused. The connection it came on is closed after the answer.
package struct HTTPParseError: Error, Equatable, Sendable {
    /// Closed and bounded: a metric label.
    package enum Reason: String, Sendable, CaseIterable {
        case bareCarriageReturn = "bare_cr"
        case bareLineFeed = "bare_lf"
        case controlCharacter = "control_character"

        case requestLineTooLong = "request_line_too_long"
        case requestLineMalformed = "request_line_malformed"
        case methodInvalid = "method_invalid"
        case targetInvalid = "target_invalid"
        case versionInvalid = "version_invalid"
        case versionUnsupported = "version_unsupported"
        case statusLineMalformed = "status_line_malformed"

        case fieldsTooLarge = "fields_too_large"
        case tooManyFields = "too_many_fields"
        case fieldNameInvalid = "field_name_invalid"
        case colonMissing = "colon_missing"
        case whitespaceBeforeColon = "whitespace_before_colon"
        case obsFold = "obs_fold"

        case hostMissing = "host_missing"
        case hostRepeated = "host_repeated"
        case hostInvalid = "host_invalid"
        case expectationUnknown = "expectation_unknown"

        case contentLengthInvalid = "content_length_invalid"
        case contentLengthRepeated = "content_length_repeated"
        case lengthAndTransferEncoding = "length_and_transfer_encoding"
        case transferEncodingInHTTP10 = "transfer_encoding_in_http10"
        case transferEncodingInvalid = "transfer_encoding_invalid"
        case transferCodingUnknown = "transfer_coding_unknown"
        case contentForbidden = "content_forbidden"

        case chunkSizeInvalid = "chunk_size_invalid"
        case chunkExtensionInvalid = "chunk_extension_invalid"
        case chunkLineTooLong = "chunk_line_too_long"
        case chunkExtensionsTooLarge = "chunk_extensions_too_large"
        case chunkEndMissing = "chunk_end_missing"
        case contentTooLarge = "content_too_large"
        case incomplete = "incomplete"
    }

    package let reason: Reason
    /// Bytes from the start of the message (heads) or of the message body (decoder) to what was wrong.
    package let offset: Int

    package init(_ reason: Reason, at offset: Int) {
        self.reason = reason
        self.offset = offset
    }

    /// The status that says so to a client: 400, 413, 414, 417, 431, 501 or 505. Without meaning for responses.
    package var status: Int {
        switch reason {
        case .contentTooLarge: 413
        case .requestLineTooLong: 414
        case .expectationUnknown: 417
        case .fieldsTooLarge, .tooManyFields: 431
        case .transferCodingUnknown: 501
        case .versionUnsupported: 505
        case .bareCarriageReturn, .bareLineFeed, .controlCharacter, .requestLineMalformed, .methodInvalid, .targetInvalid,
            .versionInvalid, .statusLineMalformed, .fieldNameInvalid, .colonMissing, .whitespaceBeforeColon, .obsFold,
            .hostMissing, .hostRepeated, .hostInvalid, .contentLengthInvalid, .contentLengthRepeated,
            .lengthAndTransferEncoding, .transferEncodingInHTTP10, .transferEncodingInvalid, .contentForbidden,
            .chunkSizeInvalid, .chunkExtensionInvalid, .chunkLineTooLong, .chunkExtensionsTooLarge, .chunkEndMissing,
            .incomplete:
            400
        }
    }
}
