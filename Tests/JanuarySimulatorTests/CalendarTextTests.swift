import Primitives
import Testing

@testable import JanuarySimulator

@Suite struct CalendarTextTests {
    @Test(arguments: [
        (Int64(0), "1970-01-01T00:00:00.000Z"), (951_782_400, "2000-02-29T00:00:00.000Z"),
        (1_795_996_799, "2026-11-29T23:59:59.000Z"), (-1, "1969-12-31T23:59:59.000Z"),
    ])
    func datesAreWrittenAsJanuaryWritesThem(seconds: Int64, dateTime: String) {
        #expect(CalendarText(WallInstant(secondsSinceEpoch: seconds)).dateTime == dateTime)
    }

    @Test(arguments: [
        (Int64(1_795_996_800), "2026-11-01", "2026-11-30", "2026-12-01"),
        (1_709_164_800, "2024-02-01", "2024-02-29", "2024-03-01"), (1_798_675_200, "2026-12-01", "2026-12-31", "2027-01-01"),
        (4_107_542_400, "2100-03-01", "2100-03-31", "2100-04-01"),
    ])
    func aPeriodIsACalendarMonth(seconds: Int64, first: String, last: String, next: String) {
        let text = CalendarText(WallInstant(secondsSinceEpoch: seconds))
        #expect([text.firstOfMonth, text.lastOfMonth, text.firstOfNextMonth] == [first, last, next])
    }
}
