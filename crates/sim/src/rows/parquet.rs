//! Rows as columns, a group of rows at a time: what is in memory does not grow with the trace.

use super::{NUMBERS, SLOWDOWN};
use parquet::basic::{Compression, Repetition, Type as Physical};
use parquet::data_type::{DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::io::{self, Write};
use std::sync::Arc;

/// So many rows are written together.
const GROUP: usize = 1 << 16;

/// A table under way.
pub struct Columns<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    numbers: [Vec<i64>; NUMBERS.len()],
    slowdowns: Vec<f64>,
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

fn column(name: &str, physical: Physical) -> Result<Arc<Type>, ParquetError> {
    let column = Type::primitive_type_builder(name, physical);
    Ok(Arc::new(column.with_repetition(Repetition::REQUIRED).build()?))
}

fn schema() -> Result<Arc<Type>, ParquetError> {
    let mut columns = Vec::with_capacity(NUMBERS.len() + 1);
    for name in NUMBERS {
        columns.push(column(name, Physical::INT64)?);
    }
    columns.push(column(SLOWDOWN, Physical::DOUBLE)?);
    Ok(Arc::new(Type::group_type_builder("jobs").with_fields(columns).build()?))
}

impl<W: Write + Send> Columns<W> {
    pub(super) fn new(out: W) -> io::Result<Self> {
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let schema = schema().map_err(failed)?;
        let writer =
            SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(failed)?;
        Ok(Self { writer, numbers: Default::default(), slowdowns: Vec::new() })
    }

    pub(super) fn add(&mut self, row: [i64; NUMBERS.len()], slowdown: f64) -> io::Result<()> {
        for (column, number) in self.numbers.iter_mut().zip(row) {
            column.push(number);
        }
        self.slowdowns.push(slowdown);
        if self.slowdowns.len() == GROUP { self.write().map_err(failed) } else { Ok(()) }
    }

    /// Writes the rows that are held as a group.
    fn write(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for numbers in &mut self.numbers {
            if let Some(mut column) = group.next_column()? {
                column.typed::<Int64Type>().write_batch(numbers, None, None)?;
                column.close()?;
            }
            numbers.clear();
        }
        if let Some(mut column) = group.next_column()? {
            column.typed::<DoubleType>().write_batch(&self.slowdowns, None, None)?;
            column.close()?;
        }
        self.slowdowns.clear();
        group.close()?;
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        if !self.slowdowns.is_empty() {
            self.write().map_err(failed)?;
        }
        self.writer.close().map_err(failed)?;
        Ok(())
    }
}
