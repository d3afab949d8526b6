extension StaticString {
    /// A C string that lives as long as the process. `OSSL_PARAM` keeps the pointers to its names and never copies them: a Swift
    /// `String` passed there is gone when the call returns. ASCII literals only.
    package var openSSLName: UnsafePointer<CChar> { UnsafeRawPointer(utf8Start).assumingMemoryBound(to: CChar.self) }
}
