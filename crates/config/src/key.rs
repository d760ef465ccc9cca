//! The table of keys that documents, checks and shows the configuration.

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name in the section.
    pub name: &'static str,
    /// What its value is, in words.
    pub kind: &'static str,
    /// What it does; lines as in the source, each with its leading blank.
    pub doc: &'static [&'static str],
    /// A change of it needs a new start of the daemon.
    pub restart: bool,
}

/// One section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// `[[name]]`: may be there any number of times.
    pub many: bool,
    /// What it is for.
    pub doc: &'static [&'static str],
    /// Its keys.
    pub keys: &'static [Key],
}

impl Key {
    /// The sentences as one text.
    pub fn text(&self) -> String {
        join(self.doc)
    }
}

impl Section {
    /// The sentences as one text.
    pub fn text(&self) -> String {
        join(self.doc)
    }
}

fn join(lines: &[&str]) -> String {
    lines.iter().map(|l| l.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// A section's struct together with its table of keys, so that neither can be without the other.
///
/// `key: Type = default, "kind"` and, where a change needs a new start, `, restart`.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        $many:ident $title:literal $name:ident {
            $(
                $(#[doc = $key_doc:literal])*
                $key:ident: $ty:ty = $default:expr, $kind:literal $(, $restart:ident)?;
            )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[doc = $key_doc])* pub $key: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        impl $name {
            /// What is documented of it.
            pub const SECTION: $crate::Section = $crate::Section {
                name: $title,
                many: section!(@many $many),
                doc: &[$($doc),*],
                keys: &[$($crate::Key {
                    name: stringify!($key),
                    kind: $kind,
                    doc: &[$($key_doc),*],
                    restart: section!(@restart $($restart)?),
                }),*],
            };
        }
    };
    (@many one) => { false };
    (@many many) => { true };
    (@restart) => { false };
    (@restart restart) => { true };
}

pub(crate) use section;
