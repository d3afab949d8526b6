import Configuration
import Revocations

/// Of the section `revocations`: what people may do about their own tokens.
package struct SelfServiceConfig: Sendable, Equatable {
    /// `revocations.self_service`: `DELETE` on a token path signs its caller out of January.
    package var isOn: Bool
    /// `revocations.self_service_block`: nobody can block themselves for good.
    package var block: RevocationBlock

    private enum Block: String, CaseIterable {
        case none, sessions
    }

    static func read(_ section: ConfigSection, state: StateConfig) -> SelfServiceConfig {
        let isOn = section.boolean("self_service", default: false)
        let block = section.choice("self_service_block", default: Block.none)
        if isOn, case .none = state {
            section.problem("self_service", "needs a state to keep revocations in: set state to sqlite:PATH")
        }
        return SelfServiceConfig(isOn: isOn, block: block == .none ? .none : .sessions)
    }
}
