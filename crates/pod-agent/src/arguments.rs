//! The words behind `muster pod run` and `muster pod order`, which the engine writes.

use crate::error::AgentError;
use std::path::PathBuf;

/// All of them; what a command does not need is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// Where the order to launch lies.
    pub(crate) orders: PathBuf,
    /// Where muster keeps its own state.
    pub(crate) state: PathBuf,
    /// Where it says how the job ended.
    pub(crate) report: PathBuf,
    /// An order.
    pub(crate) order: String,
}

impl Arguments {
    pub(crate) fn read(words: &[String]) -> Result<Self, AgentError> {
        let mut found = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let place = match word.as_str() {
                "--orders" => &mut found.orders,
                "--state" => &mut found.state,
                "--report" => &mut found.report,
                order if order.starts_with('{') => {
                    order.clone_into(&mut found.order);
                    continue;
                }
                _ => return Err(AgentError::Usage),
            };
            *place = words.next().ok_or(AgentError::Usage)?.into();
        }
        Ok(found)
    }
}
