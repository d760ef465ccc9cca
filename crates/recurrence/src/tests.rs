use super::*;

fn repeat(zone: &str, first: &str, rule: &str) -> Repeat {
    let first = local(zone, first).expect("a local time");
    Repeat { rule: rule.to_owned(), zone: zone.to_owned(), first }
}

/// The first occurrences not over at a UTC time, as UTC texts.
fn next(repeat: &Repeat, length: u64, after: &str, count: usize) -> Vec<String> {
    let after = local("UTC", after).expect("a time");
    let found = windows(repeat, Seconds(length), after, count).expect("a rule");
    found.iter().map(|w| local_text("UTC", w.start).expect("UTC is a zone")).collect()
}

#[test]
fn s25_daily_means_the_same_wall_clock_time() {
    let daily = repeat("America/New_York", "2027-03-13T09:00", "FREQ=DAILY");
    assert_eq!(
        next(&daily, 3600, "2027-03-13T00:00", 2),
        ["2027-03-13T14:00:00", "2027-03-14T13:00:00"]
    );
    let found = windows(&daily, Seconds(3600), daily.first, 2).expect("a rule");
    assert_eq!(found[1].length(), Some(Seconds(3600)));
}

#[test]
fn weekly_stays_at_nine_on_the_local_clock() {
    let berlin = repeat("Europe/Berlin", "2026-10-19T09:00", "FREQ=WEEKLY;BYDAY=MO");
    assert_eq!(
        next(&berlin, 3600, "2026-10-19T00:00", 3),
        ["2026-10-19T07:00:00", "2026-10-26T08:00:00", "2026-11-02T08:00:00"]
    );
    let seoul = repeat("Asia/Seoul", "2026-10-19T09:00", "FREQ=WEEKLY;BYDAY=MO");
    assert_eq!(
        next(&seoul, 3600, "2026-10-19T00:00", 2),
        ["2026-10-19T00:00:00", "2026-10-26T00:00:00"]
    );
}

#[test]
fn a_local_time_in_a_gap_moves_on_and_of_two_the_first_counts() {
    let gap = repeat("Europe/Berlin", "2027-03-27T02:30", "FREQ=DAILY");
    // 28 March 02:30 does not exist: 03:30 summer time, which is 01:30 in UTC.
    assert_eq!(
        next(&gap, 60, "2027-03-27T23:00", 2),
        ["2027-03-28T01:30:00", "2027-03-29T00:30:00"]
    );
    let twice = repeat("Europe/Berlin", "2027-10-30T02:30", "FREQ=DAILY");
    assert_eq!(
        next(&twice, 60, "2027-10-30T12:00", 2),
        ["2027-10-31T00:30:00", "2027-11-01T01:30:00"]
    );
}

#[test]
fn hours_are_counted_over_a_change_of_the_clocks() {
    let hourly = repeat("Europe/Berlin", "2027-03-28T00:30", "FREQ=HOURLY");
    assert_eq!(
        next(&hourly, 60, "2027-03-28T00:00", 3),
        ["2027-03-28T00:30:00", "2027-03-28T01:30:00", "2027-03-28T02:30:00"]
    );
    let far = next(&hourly, 60, "2067-03-28T00:00", 1);
    assert_eq!(far, ["2067-03-28T00:30:00"]);
}

#[test]
fn ends_are_kept() {
    let three = repeat("UTC", "2026-12-01T00:00", "FREQ=DAILY;COUNT=3");
    assert_eq!(next(&three, 60, "2026-12-02T12:00", 9), ["2026-12-03T00:00:00"]);
    let until = repeat("Asia/Seoul", "2026-12-01T09:00", "FREQ=DAILY;UNTIL=20261202T000000Z");
    assert_eq!(
        next(&until, 60, "2026-12-01T00:00", 9),
        ["2026-12-01T00:00:00", "2026-12-02T00:00:00"]
    );
    let over = next(&three, 60, "2030-01-01T00:00", 9);
    assert!(over.is_empty());
}

#[test]
fn rules_and_zones_that_are_none_are_refused() {
    for rule in [
        "",
        "WEEKLY",
        "FREQ=SOMETIMES",
        "FREQ=SECONDLY",
        "FREQ=MINUTELY",
        "FREQ=DAILY;INTERVAL=0",
        "FREQ=DAILY\nRRULE:FREQ=HOURLY",
        "FREQ=DAILY;UNTIL=tomorrow",
        "FREQ=DAILY;BYMONTH=13",
    ] {
        let found = check(&repeat("UTC", "2026-12-01T00:00", rule), Seconds(60));
        assert!(matches!(found, Err(RecurrenceError::RuleBad { .. })), "{rule}: {found:?}");
    }
    let long = format!("FREQ=DAILY;BYHOUR={}", "1,".repeat(600));
    assert!(check(&repeat("UTC", "2026-12-01T00:00", &long), Seconds(60)).is_err());
    let nowhere = Repeat {
        zone: "Asia/Atlantis".to_owned(),
        ..repeat("UTC", "2026-12-01T00:00", "FREQ=DAILY")
    };
    assert_eq!(
        check(&nowhere, Seconds(60)),
        Err(RecurrenceError::ZoneUnknown { name: "Asia/Atlantis".to_owned() })
    );
}

#[test]
fn an_end_before_the_beginning_is_told_with_its_column() {
    let over = repeat("UTC", "2026-12-01T09:00", "FREQ=DAILY;UNTIL=20261101");
    let found = check(&over, Seconds(60)).expect_err("it never comes");
    assert_eq!(
        found.to_string(),
        "\"FREQ=DAILY;UNTIL=20261101\" is no recurrence rule: column 12: UNTIL is before it first \
         comes, 2026-12-01 09:00"
    );
}

#[test]
fn what_never_comes_or_runs_into_itself_is_refused() {
    let never = repeat("UTC", "2026-12-01T00:00", "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30");
    assert!(matches!(check(&never, Seconds(60)), Err(RecurrenceError::Never { .. })));
    let yearly = repeat("UTC", "2026-12-01T00:00", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30");
    assert!(matches!(check(&yearly, Seconds(60)), Err(RecurrenceError::Never { .. })));
    let long = repeat("UTC", "2026-12-01T00:00", "FREQ=HOURLY");
    assert_eq!(
        check(&long, Seconds(3601)),
        Err(RecurrenceError::Overlaps { length: 3601, gap: 3600 })
    );
    assert_eq!(check(&long, Seconds(3600)), Ok(()));
}

#[test]
fn the_next_time_of_day_is_today_or_tomorrow() {
    let seoul = zone("Asia/Seoul").expect("a zone");
    let at = |text: &str| local("Asia/Seoul", text).expect("a time");
    let nine = civil::time(9, 0, 0, 0);
    assert_eq!(seoul.next_time(at("2026-12-07T08:59"), nine), at("2026-12-07T09:00"));
    assert_eq!(seoul.next_time(at("2026-12-07T09:01"), nine), at("2026-12-08T09:00"));
}
