//! Option words as glibc's `getopt_long` reads them, with its messages.
//!
//! Clients abbreviate long options, bundle short ones and put options behind operands, because
//! Slurm's commands take all of that. Rule: getopt(3).

/// Whether an option has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Never.
    Nothing,
    /// Always: `--name=value`, `--name value`, `-nvalue`, `-n value`.
    Value,
    /// Only where it is attached: `--name=value`, `-nvalue`.
    MaybeValue,
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opt {
    /// What [`Parsed`] calls it; several spellings may share one key.
    key: &'static str,
    long: &'static str,
    short: char,
    takes: Takes,
}

impl Opt {
    /// Its long name.
    pub(crate) const fn long(&self) -> &'static str {
        self.long
    }

    /// Its letter, where it has one.
    pub(crate) fn short(&self) -> Option<char> {
        Some(self.short).filter(|letter| *letter != NO_SHORT)
    }

    /// Whether it has a value.
    pub(crate) const fn takes(&self) -> Takes {
        self.takes
    }
}

/// Stands where an option has no short form.
pub(crate) const NO_SHORT: char = '\0';

/// An option without a value.
pub(crate) const fn flag(long: &'static str, short: char) -> Opt {
    Opt { key: long, long, short, takes: Takes::Nothing }
}

/// An option with a value.
pub(crate) const fn value(long: &'static str, short: char) -> Opt {
    Opt { key: long, long, short, takes: Takes::Value }
}

/// An option whose value must be attached.
pub(crate) const fn maybe(long: &'static str, short: char) -> Opt {
    Opt { key: long, long, short, takes: Takes::MaybeValue }
}

/// Another spelling of the option `key`, with a value where that has one.
pub(crate) const fn alias(long: &'static str, key: &'static str, takes: Takes) -> Opt {
    Opt { key, long, short: NO_SHORT, takes }
}

/// Whether options may stand behind the first word that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Anywhere.
    Mixed,
    /// Only before it: the rest is a script with its arguments, or a command.
    OptionsFirst,
}

/// A command line, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// Options in their order, by key.
    options: Vec<(&'static str, Option<String>)>,
    /// The words that are no options.
    pub(crate) words: Vec<String>,
    /// How many leading words were options and their values (with [`Order::OptionsFirst`]).
    pub(crate) option_words: usize,
}

impl Parsed {
    /// True where the option was given.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.options.iter().any(|(name, _)| *name == key)
    }

    /// The value given last.
    pub(crate) fn last(&self, key: &str) -> Option<&str> {
        self.options.iter().rev().find(|(name, _)| *name == key).and_then(|(_, v)| v.as_deref())
    }

    /// All values of an option joined by commas, as lists grow where an option is repeated.
    pub(crate) fn all(&self, key: &str) -> Option<String> {
        let values: Vec<&str> = self
            .options
            .iter()
            .filter(|(name, _)| *name == key)
            .filter_map(|(_, value)| value.as_deref())
            .collect();
        (!values.is_empty()).then(|| values.join(","))
    }

    /// How often an option was given.
    #[cfg(test)]
    pub(crate) fn count(&self, key: &str) -> usize {
        self.options.iter().filter(|(name, _)| *name == key).count()
    }
}

/// Reads the words of a command line.
///
/// # Errors
/// glibc's message, with the command's name before it.
pub(crate) fn parse(
    name: &str,
    table: &[Opt],
    args: &[String],
    order: Order,
) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    let mut at = 0;
    while at < args.len() {
        let word = &args[at];
        if word == "--" {
            at += 1;
            break;
        }
        if let Some(rest) = word.strip_prefix("--") {
            at += long(name, table, rest, args.get(at + 1), &mut parsed)?;
        } else if word.len() > 1 && word.starts_with('-') {
            at += bundle(name, table, &word[1..], args.get(at + 1), &mut parsed)?;
        } else if order == Order::OptionsFirst {
            break;
        } else {
            parsed.words.push(word.clone());
            at += 1;
        }
    }
    parsed.option_words = at;
    parsed.words.extend_from_slice(&args[at.min(args.len())..]);
    Ok(parsed)
}

/// Reads one `--word`; returns how many words it took.
fn long(
    name: &str,
    table: &[Opt],
    text: &str,
    next: Option<&String>,
    parsed: &mut Parsed,
) -> Result<usize, String> {
    let (spelled, attached) = match text.split_once('=') {
        Some((spelled, value)) => (spelled, Some(value.to_owned())),
        None => (text, None),
    };
    let option = find_long(name, table, spelled)?;
    match (option.takes, attached) {
        (Takes::Nothing, Some(_)) => {
            Err(format!("{name}: option '--{}' doesn't allow an argument", option.long))
        }
        (Takes::Value, None) => match next {
            Some(value) => {
                parsed.options.push((option.key, Some(value.clone())));
                Ok(2)
            }
            None => Err(format!("{name}: option '--{}' requires an argument", option.long)),
        },
        (_, attached) => {
            parsed.options.push((option.key, attached));
            Ok(1)
        }
    }
}

fn find_long<'a>(name: &str, table: &'a [Opt], spelled: &str) -> Result<&'a Opt, String> {
    if let Some(exact) = table.iter().find(|option| option.long == spelled) {
        return Ok(exact);
    }
    let begins: Vec<&Opt> = table
        .iter()
        .filter(|option| !spelled.is_empty() && option.long.starts_with(spelled))
        .collect();
    match begins[..] {
        [] => Err(format!("{name}: unrecognized option '--{spelled}'")),
        [only] => Ok(only),
        [first, ..] if begins.iter().all(|option| option.key == first.key) => Ok(first),
        _ => {
            let possible: Vec<String> =
                begins.iter().map(|option| format!("'--{}'", option.long)).collect();
            Err(format!(
                "{name}: option '--{spelled}' is ambiguous; possibilities: {}",
                possible.join(" ")
            ))
        }
    }
}

/// Reads one `-abc`; returns how many words it took.
fn bundle(
    name: &str,
    table: &[Opt],
    letters: &str,
    next: Option<&String>,
    parsed: &mut Parsed,
) -> Result<usize, String> {
    for (index, letter) in letters.char_indices() {
        let Some(option) = table.iter().find(|option| option.short == letter && letter != NO_SHORT)
        else {
            return Err(format!("{name}: invalid option -- '{letter}'"));
        };
        let rest = &letters[index + letter.len_utf8()..];
        match option.takes {
            Takes::Nothing => parsed.options.push((option.key, None)),
            Takes::MaybeValue => {
                let value = (!rest.is_empty()).then(|| rest.to_owned());
                parsed.options.push((option.key, value));
                return Ok(1);
            }
            Takes::Value if !rest.is_empty() => {
                parsed.options.push((option.key, Some(rest.to_owned())));
                return Ok(1);
            }
            Takes::Value => {
                let Some(value) = next else {
                    return Err(format!("{name}: option requires an argument -- '{letter}'"));
                };
                parsed.options.push((option.key, Some(value.clone())));
                return Ok(2);
            }
        }
    }
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Opt] = &[
        flag("noheader", 'h'),
        value("jobs", 'j'),
        alias("job", "jobs", Takes::Value),
        value("format", 'o'),
        value("name", 'n'),
        maybe("nice", NO_SHORT),
    ];

    fn read(args: &[&str], order: Order) -> Result<Parsed, String> {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        parse("squeue", TABLE, &args, order)
    }

    #[test]
    fn reads_every_spelling() {
        let parsed = read(
            &["-hj7", "--form=%i", "x", "--job", "8", "--nice", "-o", "%t", "--", "-z"],
            Order::Mixed,
        )
        .expect("read");
        assert!(parsed.has("noheader") && parsed.has("nice"));
        assert_eq!(parsed.last("jobs"), Some("8"));
        assert_eq!(parsed.count("jobs"), 2);
        assert_eq!(parsed.last("format"), Some("%t"));
        assert_eq!(parsed.words, ["x", "-z"]);
    }

    #[test]
    fn stops_at_the_script() {
        let parsed = read(&["-j", "7", "run.sh", "-j", "8"], Order::OptionsFirst).expect("read");
        assert_eq!(parsed.words, ["run.sh", "-j", "8"]);
        assert_eq!(parsed.option_words, 2);
    }

    #[test]
    fn says_what_glibc_says() {
        let says = |args: &[&str]| read(args, Order::Mixed).expect_err("refused");
        assert_eq!(says(&["--bogus"]), "squeue: unrecognized option '--bogus'");
        assert_eq!(says(&["--jobs"]), "squeue: option '--jobs' requires an argument");
        assert_eq!(
            says(&["--noheader=1"]),
            "squeue: option '--noheader' doesn't allow an argument"
        );
        assert_eq!(says(&["-z"]), "squeue: invalid option -- 'z'");
        assert_eq!(says(&["-n"]), "squeue: option requires an argument -- 'n'");
        assert_eq!(
            says(&["--n"]),
            "squeue: option '--n' is ambiguous; possibilities: '--noheader' '--name' '--nice'"
        );
    }
}
