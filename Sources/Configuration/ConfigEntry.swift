/// One effective value: what a getter answered, and where it came from. The material of ``ConfigPrinter``.
struct ConfigEntry {
    enum Value {
        case value(ConfigValue)
        case section(ConfigSection)
        case items([ConfigItem])
        /// A secret from the environment; there is nothing to print but that it is there.
        case secret
    }

    let key: String
    let value: Value
    let source: ConfigSource
}

/// One item of a list that mixes scalars and mappings, `[bearer, { cookie: app_session }]`.
package struct ConfigItem {
    package enum Content {
        case text(String)
        case section(ConfigSection)
    }

    package let content: Content
    let source: ConfigSource
    private let report: (String) -> Void

    init(content: Content, source: ConfigSource, report: @escaping (String) -> Void) {
        self.content = content
        self.source = source
        self.report = report
    }

    package var text: String? {
        if case .text(let text) = content { return text }
        return nil
    }

    package var section: ConfigSection? {
        if case .section(let section) = content { return section }
        return nil
    }

    /// A problem at this item, with its own line and index.
    package func problem(_ message: String) { report(message) }
}
