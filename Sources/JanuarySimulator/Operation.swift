import Primitives

/// What a request asks for, by method and path. January's operations carry the names of its API; the identity provider's two documents
/// are operations too, so that faults and the ledger can name them.
package enum Operation: String, Sendable, Hashable, CaseIterable {
    case mint, revoke, credits
    case searchFoods, autocompleteFoods, getFood, getFoodByBarcode, foodAlternatives
    case searchRestaurants, restaurantMenu, searchMenuItems
    case analyzeImage, analyzeText, correctAnalysis
    case createFoodLog, listFoodLogs, foodLogSummary, getFoodLog, updateFoodLog, deleteFoodLog
    case createWaterLog, listWaterLogs, deleteWaterLog
    case createWeightLog, listWeightLogs
    case predictGlucose
    case chatCompletions, searchLiterature, createExtraction, getExtraction, patientSnapshot
    case discovery, keySet
    /// A path nobody serves, a method a path does not have, or another API version.
    case unknown

    /// Who may call it.
    package enum Access: Sendable, Equatable {
        /// Only an API key: `client_token_not_allowed` for a client token.
        case apiKey
        /// A client token with the scope, or an API key. `ofUser`: a log operation, for which an API key has to name the end user.
        case scope(Scope, ofUser: Bool)
        /// Anybody: the identity provider's documents.
        case open
    }

    package var access: Access {
        switch self {
        case .mint, .revoke, .credits, .chatCompletions, .searchLiterature, .createExtraction, .getExtraction, .patientSnapshot:
            .apiKey
        case .searchFoods, .autocompleteFoods, .getFood, .getFoodByBarcode, .foodAlternatives:
            .scope(.foodsRead, ofUser: false)
        case .searchRestaurants, .restaurantMenu, .searchMenuItems: .scope(.restaurantsRead, ofUser: false)
        case .analyzeImage, .analyzeText, .correctAnalysis: .scope(.foodAnalysisWrite, ofUser: false)
        case .createFoodLog, .updateFoodLog, .deleteFoodLog: .scope(.foodLogsWrite, ofUser: true)
        case .listFoodLogs, .foodLogSummary, .getFoodLog: .scope(.foodLogsRead, ofUser: true)
        case .createWaterLog, .deleteWaterLog: .scope(.waterLogsWrite, ofUser: true)
        case .listWaterLogs: .scope(.waterLogsRead, ofUser: true)
        case .createWeightLog: .scope(.weightLogsWrite, ofUser: true)
        case .listWeightLogs: .scope(.weightLogsRead, ofUser: true)
        case .predictGlucose: .scope(.glucoseRead, ofUser: false)
        case .discovery, .keySet, .unknown: .open
        }
    }
}

/// Method and path to operation: January's paths below `/v1.2`, the identity provider's below `/idp`.
package enum Routes {
    package enum Match: Sendable, Equatable {
        case operation(Operation)
        /// The path is served, but not with this method.
        case otherMethod(allow: [String])
        /// A path below another API version, such as `/v1.1/credits`.
        case otherVersion
        case none
    }

    private struct Route: Sendable {
        let method: String
        let segments: [String]
        let operation: Operation
    }

    /// `*` stands for one non-empty segment. Fixed segments come before `*` of the same length: the first match wins.
    private static let table: [Route] = rows.map { method, path, operation in
        Route(method: method, segments: path.split(separator: "/").map(String.init), operation: operation)
    }

    private static let rows: [(String, String, Operation)] = [
        ("POST", "v1.2/auth/client-tokens", .mint),
        ("POST", "v1.2/auth/client-token-revocations", .revoke),
        ("GET", "v1.2/credits", .credits),
        ("GET", "v1.2/foods", .searchFoods),
        ("GET", "v1.2/foods/autocomplete", .autocompleteFoods),
        ("GET", "v1.2/foods/barcode/*", .getFoodByBarcode),
        ("GET", "v1.2/foods/*", .getFood),
        ("POST", "v1.2/foods/*/alternatives", .foodAlternatives),
        ("GET", "v1.2/restaurants", .searchRestaurants),
        ("GET", "v1.2/restaurants/*/menu-items", .restaurantMenu),
        ("GET", "v1.2/menu-items", .searchMenuItems),
        ("POST", "v1.2/food-analysis/image", .analyzeImage),
        ("POST", "v1.2/food-analysis/text", .analyzeText),
        ("POST", "v1.2/food-analysis/corrections", .correctAnalysis),
        ("POST", "v1.2/food-logs", .createFoodLog),
        ("GET", "v1.2/food-logs", .listFoodLogs),
        ("GET", "v1.2/food-logs/summary", .foodLogSummary),
        ("GET", "v1.2/food-logs/*", .getFoodLog),
        ("PATCH", "v1.2/food-logs/*", .updateFoodLog),
        ("DELETE", "v1.2/food-logs/*", .deleteFoodLog),
        ("POST", "v1.2/water-logs", .createWaterLog),
        ("GET", "v1.2/water-logs", .listWaterLogs),
        ("DELETE", "v1.2/water-logs/*", .deleteWaterLog),
        ("POST", "v1.2/weight-logs", .createWeightLog),
        ("GET", "v1.2/weight-logs", .listWeightLogs),
        ("POST", "v1.2/glucose/predictions", .predictGlucose),
        ("POST", "v1.2/chat/completions", .chatCompletions),
        ("POST", "v1.2/literature/search", .searchLiterature),
        ("POST", "v1.2/extractions", .createExtraction),
        ("GET", "v1.2/extractions/*", .getExtraction),
        ("GET", "v1.2/patients/*/snapshot", .patientSnapshot),
        ("GET", "idp/.well-known/openid-configuration", .discovery),
        ("GET", "idp/jwks.json", .keySet),
    ]

    package static func match(method: String, path: String) -> Match {
        // The one path of load tests first.
        if method == "POST", path == "/v1.2/auth/client-tokens" { return .operation(.mint) }
        let segments = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        var allow: [String] = []
        var pattern: [String]?
        for route in table where fits(route.segments, segments) {
            // A fixed path hides the `*` behind it: `foods/autocomplete` is not a food.
            if let pattern, pattern != route.segments { continue }
            if route.method == method { return .operation(route.operation) }
            pattern = route.segments
            allow.append(route.method)
        }
        if !allow.isEmpty { return .otherMethod(allow: allow) }
        guard let version = segments.first, version != "v1.2", version.hasPrefix("v1.") else { return .none }
        return version.utf8.dropFirst(3).allSatisfy(ASCII.isDigit) ? .otherVersion : .none
    }

    private static func fits(_ pattern: [String], _ segments: ArraySlice<Substring>) -> Bool {
        pattern.count == segments.count
            && zip(pattern, segments).allSatisfy { $0 == "*" ? !$1.isEmpty : $0 == $1 }
    }
}
