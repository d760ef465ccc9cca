//! The jobs of a replay as a table: what is written as columns is read back as the lines say.

#![allow(clippy::unwrap_used)]

use muster_sim::rows::{Format, Rows};
use muster_sim::trace::SwfJob;
use muster_sim::twin::Finished;
use std::path::Path;

fn jobs() -> impl Iterator<Item = Finished> {
    (0..100_000i64).map(|number| {
        let (submit, run) = (number * 7, 1 + number * number % 5000);
        let (user, requested, requested_time) = (number % 40 - 1, 1 + number % 64, run + 60);
        let job =
            SwfJob { number, submit, run, user, requested, requested_time, ..SwfJob::default() };
        Finished::once(job, submit + number % 977)
    })
}

fn written(format: Format) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut rows = Rows::new(&mut out, format)?;
    for job in jobs() {
        rows.add(&job)?;
    }
    rows.finish()?;
    Ok(out)
}

#[test]
fn the_name_of_the_file_says_what_it_is() {
    let of = |name: &str| Format::of(Path::new(name));
    assert_eq!((of("a.csv"), of("parquet"), of("b")), (Format::Csv, Format::Csv, Format::Csv));
    assert_eq!((of("a.parquet"), of("/x/b.PARQUET")), (Format::Parquet, Format::Parquet));
}

#[test]
fn a_job_is_a_line() {
    let text = String::from_utf8(written(Format::Csv).unwrap()).unwrap();
    let mut lines = text.lines();
    let title = "job,user,processors,submit_s,start_s,wait_s,run_s,requested_s,bounded_slowdown";
    assert_eq!(lines.next(), Some(title));
    assert_eq!(lines.next(), Some("0,-1,1,0,0,0,1,61,1"));
    assert_eq!(lines.nth(2), Some("3,2,4,21,24,3,10,70,1.3"));
    assert_eq!(lines.count(), 100_000 - 4);
}

#[cfg(not(feature = "parquet"))]
#[test]
fn what_is_not_built_in_is_refused() {
    let error = written(Format::Parquet).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    assert!(!Format::Parquet.is_built());
}

#[cfg(feature = "parquet")]
#[test]
fn columns_hold_what_the_lines_hold() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    let text = String::from_utf8(written(Format::Csv).unwrap()).unwrap();
    let columns = written(Format::Parquet).unwrap();
    assert!(columns.len() * 3 < text.len() * 2, "{} of {}", columns.len(), text.len());
    let reader = SerializedFileReader::new(bytes::Bytes::from(columns)).unwrap();
    assert_eq!(reader.num_row_groups(), 2, "a group is 65,536 rows");
    let mut lines = text.lines();
    let titles: Vec<String> = lines.next().unwrap().split(',').map(str::to_owned).collect();
    let mut rows = 0;
    for (row, line) in reader.get_row_iter(None).unwrap().zip(lines.by_ref()) {
        let row = row.unwrap();
        let names: Vec<&String> = row.get_column_iter().map(|(name, _)| name).collect();
        assert_eq!(names, titles.iter().collect::<Vec<_>>());
        let cells: Vec<&str> = line.split(',').collect();
        for (at, cell) in cells[..8].iter().enumerate() {
            assert_eq!(row.get_long(at).unwrap(), cell.parse::<i64>().unwrap());
        }
        let slowdown: f64 = cells[8].parse().unwrap();
        assert_eq!(row.get_double(8).unwrap().to_bits(), slowdown.to_bits());
        rows += 1;
    }
    assert_eq!((rows, lines.next()), (100_000, None));
}
