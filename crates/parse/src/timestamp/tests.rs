//! Tests: times as logs write them, and near misses.

use super::*;
use daytable_model::time::MAX_TICKS;
use proptest::prelude::*;

/// The time of a value without defaults.
fn read(value: &Value<'_>) -> Option<Ticks> {
    read_with(value, &TimestampDefaults::default())
}

/// Read in November 2026, in UTC.
fn defaults() -> TimestampDefaults {
    TimestampDefaults { seen: "2026-11-21T12:00:00Z".parse_time(), ..TimestampDefaults::default() }
}

trait ParseTime {
    fn parse_time(&self) -> Ticks;
}

impl ParseTime for str {
    fn parse_time(&self) -> Ticks {
        leading(self).expect("a time").0
    }
}

fn shown(written: &str, defaults: &TimestampDefaults) -> Option<String> {
    let stamp = at_start(written.as_bytes(), defaults).filter(|stamp| stamp.length == written.len())?;
    Some(stamp.time.to_string())
}

fn text(text: &str) -> Option<String> {
    read(&Value::String(text.into())).map(|time| time.to_string())
}

/// Dates and clocks that are joined, or parted by other signs than most.
#[test]
fn rarer_signs_between_a_date_and_a_clock() {
    for (written, meant) in [
        ("2026-11-20T00:05:45:123+00:00", "2026-11-20T00:05:45.123Z"),
        ("2026-11-20 00:05:45:123+0100", "2026-11-19T23:05:45.123Z"),
        ("2026-11-20 00-05-45", "2026-11-20T00:05:45Z"),
        ("2026-11-20 at 00:05:45", "2026-11-20T00:05:45Z"),
        ("2026/11/20,00:05:45.123", "2026-11-20T00:05:45.123Z"),
        ("20Nov2026 00:05:45.123", "2026-11-20T00:05:45.123Z"),
        ("20Nov26 00:05:45", "2026-11-20T00:05:45Z"),
        ("Fri 20Nov26 00:05:45", "2026-11-20T00:05:45Z"),
        ("20NOV2026:00:05:45", "2026-11-20T00:05:45Z"),
        ("20 11 2026 00:05:45.123", "2026-11-20T00:05:45.123Z"),
        ("20112026 00:05:45", "2026-11-20T00:05:45Z"),
        ("20261120 00054512", "2026-11-20T00:05:45.120Z"),
        ("2026-11-20 00h05.45 utc", "2026-11-20T00:05:45Z"),
        ("2026-11-20 01h05.45 CET", "2026-11-20T00:05:45Z"),
        ("20 Nov  8:05:45", "2026-11-20T08:05:45Z"),
        ("00:05:45,20-NOV-2026", "2026-11-20T00:05:45Z"),
    ] {
        assert_eq!(shown(written, &defaults()).as_deref(), Some(meant), "{written}");
    }
    for written in ["20 11 2026", "20Nov 00:05:45", "12MB", "20202026 00:05:45", "00:05:45,20"] {
        assert_eq!(shown(written, &defaults()), None, "{written}");
    }
}

#[test]
fn variants_of_rfc_3339() {
    for (written, meant) in [
        ("2026-11-20T00:05:45Z", "2026-11-20T00:05:45Z"),
        ("2026-11-20t00:05:45z", "2026-11-20T00:05:45Z"),
        ("2026-11-20T00:05:45.607815Z", "2026-11-20T00:05:45.607815Z"),
        ("2026-11-20 00:05:45,607", "2026-11-20T00:05:45.607Z"),
        ("2026-11-20 00:05:45.6", "2026-11-20T00:05:45.600Z"),
        ("2026/11/20 00:05:45", "2026-11-20T00:05:45Z"),
        ("2026-11-20T00:05", "2026-11-20T00:05:00Z"),
        ("2026-11-20T00:05Z", "2026-11-20T00:05:00Z"),
        ("2026-11-20T00:05:45+02:00", "2026-11-19T22:05:45Z"),
        ("2026-11-20T00:05:45-0230", "2026-11-20T02:35:45Z"),
        ("2026-11-20T00:05:45.25+02", "2026-11-19T22:05:45.250Z"),
        ("2026-11-20 00:05:45 UTC", "2026-11-20T00:05:45Z"),
        ("2026-11-20 00:05:45 CET", "2026-11-19T23:05:45Z"),
        ("2026-11-20 00:05:45.123 PST", "2026-11-20T08:05:45.123Z"),
        ("2026-11-20 00:05:45 +0200", "2026-11-19T22:05:45Z"),
        ("2026-11-20T00:05:45.1234567899999Z", "2026-11-20T00:05:45.1234567Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.9999999Z"),
        ("2016-12-31T23:59:60.5Z", "2016-12-31T23:59:59.9999999Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
        ("9998-12-31T23:59:59.9999999Z", "9998-12-31T23:59:59.9999999Z"),
    ] {
        assert_eq!(text(written).as_deref(), Some(meant), "{written}");
    }
}

#[test]
fn texts_that_are_not_timestamps() {
    for written in [
        "",
        "2026-11-20",
        "00:05:45",
        "2026-11-20T00",
        "2026-11/20T00:05:45Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "1601-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2026-00-20T00:05:45Z",
        "2026-13-20T00:05:45Z",
        "2026-02-29T00:05:45Z",
        "2026-11-31T00:05:45Z",
        "2026-11-20T24:05:45Z",
        "2026-11-20T00:60:45Z",
        "2026-11-20T00:05:61Z",
        "2026-11-20T00:05:45.Z",
        "2026-11-20T00:05:45+24:00",
        "2026-11-20T00:05:45+2",
        "2026-11-20T00:05:45Zulu",
        "2026-11-20 00:05:45 XYZ",
        "２０２６-11-20T00:05:45Z",
        "20261321-22:15:29:606",
        "81109 203615",
        "081109 243615",
        "081109 20361",
        "31/Feb/2026:00:05:45 +0100",
        "20/Nov/0000:00:05:45 +0100",
        "20/Foo/2026:00:05:45 +0100",
        "Nov 31 00:05:45",
        "Nov 20",
        "Nov 20 2026",
        "Novem 20 00:05:45",
        "Sun",
        "Sun Dec 04",
        "13-17 16:13:38.811",
        "03-17",
        "10.30 26:49:06",
        "11/21/2026 13:00:00 AM",
        "11/21/2026 24:00:00 PM",
        "2026-11-20 00:05:45 PMs",
        "1.2.3 4:5:6",
        "1/2/3/4",
    ] {
        assert_eq!(shown(written, &defaults()), None, "{written}");
        assert_eq!(read_with(&Value::String(written.into()), &defaults()), None, "{written}");
    }
}

#[test]
fn dates_with_slashes_are_in_the_order_of_their_source() {
    use super::DateOrder::{Day, Month, OnlyDay, OnlyMonth};
    let [november, may] = ["2026-11-05T10:00:00Z", "2026-05-11T10:00:00Z"];
    for (written, order, time) in [
        ("05/11/2026 10:00:00", Month, Some(may)),
        ("05/11/2026 10:00:00", OnlyMonth, Some(may)),
        ("05/11/2026 10:00:00", Day, Some(november)),
        ("05/11/2026 10:00:00", OnlyDay, Some(november)),
        ("05/11 10:00:00", Day, Some(november)),
        ("05.11.2026 10:00:00", OnlyMonth, Some(november)),
        ("11/21/2026 10:00:00", Day, Some("2026-11-21T10:00:00Z")),
        ("11/21/2026 10:00:00", OnlyDay, None),
        ("21/11/2026 10:00:00", Month, Some("2026-11-21T10:00:00Z")),
        ("21/11/2026 10:00:00", OnlyMonth, None),
    ] {
        let defaults = TimestampDefaults { order, ..defaults() };
        assert_eq!(shown(written, &defaults).as_deref(), time, "{written} {order:?}");
    }
}

#[test]
fn a_list_of_the_parts_of_a_time() {
    let read = |text: &'static str| read_with(&Value::String(text.into()), &defaults()).map(|time| time.to_string());
    assert_eq!(read("[2026,11,21,8,0,1,123000000]").as_deref(), Some("2026-11-21T08:00:01.123Z"));
    assert_eq!(read("[2026, 11, 21, 8, 0]").as_deref(), Some("2026-11-21T08:00:00Z"));
    for other in
        ["[2026,11,21]", "[2026,13,21,8,0]", "[2026,11,21,24,0]", "[1,2,3,4,5]", "[]", "[2026,11,21,8,0,1,2,3]"]
    {
        assert_eq!(read(other), None, "{other}");
    }
}

#[test]
fn a_date_of_an_unknown_order_is_the_one_near_the_time_of_reading() {
    use super::DateOrder::{Month, Unknown};
    let [november, may] = ["2026-11-05T10:00:00Z", "2026-05-11T10:00:00Z"];
    for (order, seen, time) in [
        (Unknown, "2026-11-05T10:00:03Z", november),
        (Unknown, "2026-11-04T10:00:00Z", november),
        (Unknown, "2026-05-11T10:00:03Z", may),
        (Unknown, "2026-12-24T10:00:00Z", may),
        (Month, "2026-11-05T10:00:03Z", may),
    ] {
        let seen = crate::rfc3339(seen).expect("a time");
        let defaults = TimestampDefaults { order, seen, ..defaults() };
        for written in ["05/11/2026 10:00:00", "05/11/26 10:00:00"] {
            assert_eq!(shown(written, &defaults).as_deref(), Some(time), "{written} {order:?} {seen}");
        }
    }
}

#[test]
fn dates_in_other_orders() {
    for (written, meant) in [
        ("2005-06-03-15.42.50.675872", "2005-06-03T15:42:50.675872Z"),
        ("2026-11-20_00:05:45", "2026-11-20T00:05:45Z"),
        ("2026-11-20-00:05:45", "2026-11-20T00:05:45Z"),
        ("2026.11.20 00:05:45.123", "2026-11-20T00:05:45.123Z"),
        ("2026-1-2 3:04", "2026-01-02T03:04:00Z"),
        ("2026-11-20, 00:05:45", "2026-11-20T00:05:45Z"),
        ("2026-11-20 08:05:45 PM", "2026-11-20T20:05:45Z"),
        ("2026-Nov-20 00:05:45", "2026-11-20T00:05:45Z"),
        ("20171223-22:15:29:606", "2017-12-23T22:15:29.606Z"),
        ("20171223-22:15:35:96", "2017-12-23T22:15:35.096Z"),
        ("20171224-0:0:0:8", "2017-12-24T00:00:00.008Z"),
        ("20261121T080000Z", "2026-11-21T08:00:00Z"),
        ("20261121T080000.5+0100", "2026-11-21T07:00:00.500Z"),
        ("20261121 08:00:00.123", "2026-11-21T08:00:00.123Z"),
        ("20261121080000", "2026-11-21T08:00:00Z"),
        ("081109 203615", "2008-11-09T20:36:15Z"),
        ("070716 14:10:00", "2007-07-16T14:10:00Z"),
        ("070716  4:10:00", "2007-07-16T04:10:00Z"),
        ("971109 203615", "1997-11-09T20:36:15Z"),
        ("17/06/09 20:10:40", "2017-06-09T20:10:40Z"),
        ("11/21/26 08:00:00", "2026-11-21T08:00:00Z"),
        ("21/11/26 08:00:00", "2026-11-21T08:00:00Z"),
        ("11/08/26 08:00:00", "2026-11-08T08:00:00Z"),
        ("26/08/11 08:00:00", "2026-08-11T08:00:00Z"),
        ("11/08/26  08:00:00", "2026-11-08T08:00:00Z"),
        ("11/21/2026 8:00:00 PM", "2026-11-21T20:00:00Z"),
        ("11/21/2026 12:30 am", "2026-11-21T00:30:00Z"),
        ("11/21/2026 13:30:05 PM", "2026-11-21T13:30:05Z"),
        ("11/21/2026 23:30:05 PM", "2026-11-21T23:30:05Z"),
        ("11/21/2026 0:30:05 AM", "2026-11-21T00:30:05Z"),
        ("2026-11-21 13:30:05 PM", "2026-11-21T13:30:05Z"),
        ("2026-11-21 00:30:05 AM", "2026-11-21T00:30:05Z"),
        ("21/11/2026 08:00:00", "2026-11-21T08:00:00Z"),
        ("03/04/2026 08:00:00", "2026-03-04T08:00:00Z"),
        ("03.04.2026 08:00:00,5", "2026-04-03T08:00:00.500Z"),
        ("21-11-2026 08:00:00", "2026-11-21T08:00:00Z"),
        ("20/Nov/2026:00:05:45 +0100", "2026-11-19T23:05:45Z"),
        ("20/Nov/2026 00:05:45", "2026-11-20T00:05:45Z"),
        ("20-Nov-2026 00:05:45.123", "2026-11-20T00:05:45.123Z"),
        ("20-Nov-2026::00:05:45", "2026-11-20T00:05:45Z"),
        ("20-Nov-2026 00:05:45 Europe/Paris", "2026-11-19T23:05:45Z"),
        ("20 Nov 2026 00:05:45.123", "2026-11-20T00:05:45.123Z"),
        ("05 Nov 2026 10:00:00:123", "2026-11-05T10:00:00.123Z"),
        ("Sun Dec 04 04:47:44 2005", "2005-12-04T04:47:44Z"),
        ("Sun Dec 04 04:47:44.123456 2005", "2005-12-04T04:47:44.123456Z"),
        ("Sat Nov 21 08:00:00 CET 2026", "2026-11-21T07:00:00Z"),
        ("Sat Nov 21 2026 08:00:00 GMT+0100", "2026-11-21T07:00:00Z"),
        ("Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"),
        ("Sun, 06 Nov 1994 08:49:37 -0500", "1994-11-06T13:49:37Z"),
        ("Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"),
        ("Sat 2026-11-21 08:00:00 UTC", "2026-11-21T08:00:00Z"),
        ("Nov 21, 2026 8:00:00 PM", "2026-11-21T20:00:00Z"),
        ("November 21, 2026 08:00", "2026-11-21T08:00:00Z"),
        ("Nov  5 2026 08:00:00.5", "2026-11-05T08:00:00.500Z"),
        ("2026-11-20 00:05:45 +03", "2026-11-19T21:05:45Z"),
        ("2026-11-20 00:05:45 UTC+2:00", "2026-11-19T22:05:45Z"),
        ("2026-11-20 00:05:45.5 +0100 CET m=+0.000012", "2026-11-19T23:05:45.500Z"),
        ("2026-11-20 00:05:45 +0300 +03", "2026-11-19T21:05:45Z"),
        ("2026-11-20 00:05:45:123", "2026-11-20T00:05:45.123Z"),
        ("2026-325T08:00:00", "2026-11-21T08:00:00Z"),
        ("20261121.080000", "2026-11-21T08:00:00Z"),
        ("2026:11:21-08:00:00", "2026-11-21T08:00:00Z"),
        ("2026-11-21-8:0:1", "2026-11-21T08:00:01Z"),
        ("2005-06-03-15.42.50.675872+060", "2005-06-03T14:42:50.675872Z"),
        ("2026 Nov 21 08:00:00 CET", "2026-11-21T07:00:00Z"),
        ("21/11/2026 -- 08:00:00", "2026-11-21T08:00:00Z"),
        ("11/21/26,08:00:00", "2026-11-21T08:00:00Z"),
        ("2026年11月21日 08:00:00", "2026-11-21T08:00:00Z"),
        ("Fr 20. Nov 00:05:45 CET 2026", "2026-11-19T23:05:45Z"),
        ("ven. 20 nov. 2026 00:05:45", "2026-11-20T00:05:45Z"),
        ("20 août 2026 00:05:45", "2026-08-20T00:05:45Z"),
        ("Nov. 20, 2026 8:05:45 NACHM.", "2026-11-20T20:05:45Z"),
        ("@400000006920041b0bebc200", "2025-11-21T06:17:53.200Z"),
        ("1763596800", "2025-11-20T00:00:00Z"),
        ("1763596800.25", "2025-11-20T00:00:00.250Z"),
        ("1763596800123", "2025-11-20T00:00:00.123Z"),
    ] {
        assert_eq!(shown(written, &defaults()).unwrap_or_default(), meant, "{written}");
    }
}

#[test]
fn a_missing_year_is_the_latest_before_the_time_of_reading() {
    for (written, seen, meant) in [
        ("Nov 20 00:05:45", "2026-11-21T12:00:00Z", "2026-11-20T00:05:45Z"),
        ("Mar  2 00:05:45", "2026-11-21T12:00:00Z", "2026-03-02T00:05:45Z"),
        ("May 2 00:05:45", "2026-11-21T12:00:00Z", "2026-05-02T00:05:45Z"),
        ("Nov  2 00:05:45.5", "2026-11-21T12:00:00Z", "2026-11-02T00:05:45.500Z"),
        ("Nov 22 08:00:00", "2026-11-21T12:00:00Z", "2026-11-22T08:00:00Z"),
        ("Nov 22 13:00:00", "2026-11-21T12:00:00Z", "2025-11-22T13:00:00Z"),
        ("Dec 31 23:59:59", "2026-01-02T00:00:00Z", "2025-12-31T23:59:59Z"),
        ("Jan  1 00:30:00", "2026-12-31T23:30:00Z", "2027-01-01T00:30:00Z"),
        ("Feb 29 12:00:00", "2026-11-21T12:00:00Z", "2024-02-29T12:00:00Z"),
        ("Feb 29 12:00:00", "2103-11-21T12:00:00Z", "2096-02-29T12:00:00Z"),
        ("03-17 16:13:38.811", "2026-11-21T12:00:00Z", "2026-03-17T16:13:38.811Z"),
        ("10.30 16:49:06", "2026-11-21T12:00:00Z", "2026-10-30T16:49:06Z"),
        ("11/21 08:00:00", "2026-11-21T12:00:00Z", "2026-11-21T08:00:00Z"),
        ("14 Nov 07:01:22.119", "2026-11-21T12:00:00Z", "2026-11-14T07:01:22.119Z"),
        ("1121/080000.123", "2026-11-21T12:00:00Z", "2026-11-21T08:00:00.123Z"),
        ("Nov 20 00:05:45 2005", "2026-11-21T12:00:00Z", "2005-11-20T00:05:45Z"),
        ("Nov 20 00:05:45 CET", "2026-11-21T12:00:00Z", "2026-11-19T23:05:45Z"),
    ] {
        let defaults = TimestampDefaults { seen: seen.parse_time(), ..TimestampDefaults::default() };
        assert_eq!(shown(written, &defaults).as_deref(), Some(meant), "{written} read at {seen}");
    }
    assert_eq!(shown("Nov 20 00:05:45", &TimestampDefaults::default()), None);
}

#[test]
fn times_without_a_zone_have_the_zone_of_the_source() {
    let paris = TimestampDefaults { zone: "Europe/Paris".parse().expect("a zone"), ..defaults() };
    for (written, meant) in [
        ("2026-07-20 12:00:00", "2026-07-20T10:00:00Z"),
        ("2026-11-20 12:00:00", "2026-11-20T11:00:00Z"),
        ("2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z"),
        ("Nov 20 12:00:00", "2026-11-20T11:00:00Z"),
        ("Nov 20 12:00:00 EST", "2026-11-20T17:00:00Z"),
        ("1763596800", "2025-11-20T00:00:00Z"),
    ] {
        assert_eq!(shown(written, &paris).as_deref(), Some(meant), "{written}");
    }
}

#[test]
fn a_timestamp_ends_where_the_text_begins() {
    for (line, length) in [
        ("Jun 14 15:16:01 combo sshd: x", 15),
        ("Jun 14 15:16:01 2005 combo", 20),
        ("Jun 14 15:16:01 20059 combo", 15),
        ("081109 203615 148 INFO", 13),
        ("20171223-22:15:29:606|Step", 21),
        ("20171223-22:15:29:6066|Step", 17),
        ("03-17 16:13:38.811  1702", 18),
        ("2016-09-28 04:30:30, Info", 19),
        ("2026-11-20 00:05:45 -1 left", 19),
        ("2026-11-20 00:05:45 EST", 23),
        ("2026-11-20 00:05:45 ESTABLISHED", 19),
        ("2026-11-20 00:05:45: text", 19),
        ("1763596800.123 310", 14),
        ("1763596800] x", 10),
    ] {
        let found = at_start(line.as_bytes(), &defaults()).map(|stamp| stamp.length);
        assert_eq!(found, Some(length), "{line}");
    }
    for line in ["1763596800-1", "1763596800abc", "9763596800", "176359680 x", "1763596800/7"] {
        assert_eq!(at_start(line.as_bytes(), &defaults()), None, "{line}");
    }
}

#[test]
fn the_size_of_a_number_selects_its_unit() {
    for (value, meant) in [
        (Value::Int64(1_763_596_800), "2025-11-20T00:00:00Z"),
        (Value::Int64(1_763_596_800_123), "2025-11-20T00:00:00.123Z"),
        (Value::Int64(1_763_596_800_123_456), "2025-11-20T00:00:00.123456Z"),
        (Value::Int64(1_763_596_800_123_456_789), "2025-11-20T00:00:00.1234567Z"),
        (Value::Double(1_763_596_800.123_456), "2025-11-20T00:00:00.123456Z"),
        (Value::Double(1_763_596_800_123.5), "2025-11-20T00:00:00.123500Z"),
        (Value::String("1763596800".into()), "2025-11-20T00:00:00Z"),
        (Value::String("1763596800.120".into()), "2025-11-20T00:00:00.120Z"),
        (Value::String("1763596800.123456789".into()), "2025-11-20T00:00:00.1234567Z"),
        (Value::String("1763596800123.4567891".into()), "2025-11-20T00:00:00.1234567Z"),
    ] {
        assert_eq!(read(&value).map(|time| time.to_string()).as_deref(), Some(meant), "{value:?}");
    }
    for value in [Value::Int64(0), Value::Int64(12), Value::Int64(-1), Value::Double(0.35), Value::Double(f64::NAN)] {
        assert_eq!(read(&value), None, "{value:?}");
    }
    for written in ["1763596800.", ".5", "-1763596800", "+1763596800", "1.763e9", "99999999999999999999"] {
        assert_eq!(text(written), None, "{written}");
    }
}

/// Texts like the forms, often invalid.
fn near_misses() -> impl Strategy<Value = String> {
    let names = "(Mon|Sun,|Sunday|Nov|nov|November|Feb|Fri)";
    let digits = "[0-9]{1,4}";
    let marks = "[-/.: ,_T|]{1,2}";
    proptest::collection::vec(
        prop_oneof![names, digits, digits, marks, marks, " (UTC|CET|AM|pm|\\+0100|[+-][0-9:]{0,6})", "\\PC{0,2}"],
        0..16,
    )
    .prop_map(|pieces| pieces.concat())
}

proptest! {
    /// A printed point in time reads back as the same point, for all valid years.
    #[test]
    fn shown_times_read_back(ticks in 0..=MAX_TICKS) {
        let time = Ticks::new(ticks).expect("in range");
        let expected = YEARS.contains(&time.date().year).then(|| (time, time.to_string().len()));
        prop_assert_eq!(leading(&time.to_string()), expected);
    }

    /// No number panics, and a number that is a time has a year from 1973 to 5138.
    #[test]
    fn any_number_is_a_plausible_time_or_none(number in any::<i64>(), double in any::<f64>()) {
        for value in [Value::Int64(number), Value::Double(double)] {
            if let Some(time) = read(&value) {
                prop_assert!((1973..=5138).contains(&time.date().year), "{value:?} is {time}");
            }
        }
    }

    /// The length covers the timestamp alone, whatever follows a space.
    #[test]
    fn the_rest_is_left(rest in " [a-z0-9].*") {
        prop_assume!(!rest.starts_with(" am") && !rest.starts_with(" pm"));
        let line = format!("2026-11-20 00:05:45.607{rest}");
        prop_assert_eq!(leading(&line).map(|(_, length)| length), Some(23));
    }

    /// Any bytes give a time or `None`. A time lies within the text, and a time without a year is at most a day ahead.
    #[test]
    fn any_text_is_a_time_or_none(text in near_misses()) {
        for length in (0..=text.len()).filter(|length| text.is_char_boundary(*length)) {
            if let Some(stamp) = at_start(&text.as_bytes()[..length], &defaults()) {
                prop_assert!(stamp.length <= length && text.is_char_boundary(stamp.length));
                if stamp.form == Form::Bsd {
                    prop_assert!(stamp.time <= defaults().seen.plus(std::time::Duration::from_secs(86_400)));
                }
            }
        }
    }
}

#[test]
fn an_abbreviation_means_the_zone_of_the_source_where_that_zone_uses_it() {
    for (zone, written, meant) in [
        ("Asia/Shanghai", "2025-11-21 08:00:00 CST", "2025-11-21T00:00:00Z"),
        ("America/Chicago", "2025-11-21 08:00:00 CST", "2025-11-21T14:00:00Z"),
        ("UTC", "2025-11-21 08:00:00 CST", "2025-11-21T14:00:00Z"),
        ("Europe/Dublin", "2025-07-21 08:00:00 IST", "2025-07-21T07:00:00Z"),
        ("Europe/Dublin", "2025-11-21 08:00:00 IST", "2025-11-21T02:30:00Z"),
        ("Asia/Jerusalem", "2025-11-21 08:00:00 IST", "2025-11-21T06:00:00Z"),
        // Clocks show this time twice, and the name tells which one is meant.
        ("Europe/Paris", "2026-10-25 02:30:00 CEST", "2026-10-25T00:30:00Z"),
        ("Europe/Paris", "2026-10-25 02:30:00 CET", "2026-10-25T01:30:00Z"),
        ("Europe/Paris", "2026-07-01 02:30:00 CET", "2026-07-01T01:30:00Z"),
    ] {
        let defaults = TimestampDefaults { zone: zone.parse().expect("a zone"), ..defaults() };
        assert_eq!(shown(written, &defaults).as_deref(), Some(meant), "{written} in {zone}");
    }
}

#[test]
fn an_address_after_the_time_is_no_year() {
    let length = |text: &str| at_start(text.as_bytes(), &defaults()).map(|stamp| stamp.length);
    assert_eq!(length("Nov 20 00:05:45 2001:db8::1 named[1]: x"), Some(15));
    assert_eq!(length("Nov 20 00:05:45 2005: x"), Some(20));
    assert_eq!(length("2026-11-20 00:05:45 -10 degrees"), Some(19));
}
