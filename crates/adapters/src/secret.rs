//! Secrets: where they are stored, and the type that keeps them from leaking by accident.
//!
//! A manifest names a secret; its value is read for each request, so a rotated key takes effect at once and a missing
//! one fails only the calls that need it. A reference is bound to the namespace of the manifest it appears in: nothing
//! here can name another namespace's secret. [`binding`] decides to which hosts it may be sent. There is no fallback to
//! the process's own credentials.

pub mod binding;
mod forms;
mod hosts;
pub(crate) mod redaction;

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
};

use bosun_core::{Namespace, text, tool::SecretRef};
use zeroize::Zeroizing;

use self::binding::{Destination, HostPart, SecretReach};

/// The largest secret that is read: a certificate chain with its key.
const LARGEST: u64 = 64 * 1024;

/// The prefix of environment variables that hold secrets.
pub const ENVIRONMENT_PREFIX: &str = "BOSUN_SECRET_";

/// The key next to a secret that lists the hosts it may be sent to, one per line; `secret/hosts.rs` defines the lines.
pub const ALLOWED_HOSTS: &str = "allowed-hosts";

/// A value that must not be shown. Only [`Secret::expose`] returns it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    #[must_use]
    pub fn new(value: String) -> Self {
        Self(Zeroizing::new(value))
    }

    /// The value itself, to be put into a request and nowhere else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` with this value redacted in every encoding: plain, as JSON and URLs escape it, in base64 and hexadecimal.
    #[must_use]
    pub fn redacted_from(&self, text: &str) -> String {
        forms::of(&self.0).iter().fold(text.to_owned(), |text, form| {
            // Most texts have none of them, and a copy of a large one is not free.
            if text.contains(form.as_str()) { text.replace(form.as_str(), "[redacted]") } else { text }
        })
    }
}

/// The shortest prefix or suffix of a secret that is distinguished from other words.
const SHORTEST_END: usize = 4;

impl Secret {
    /// `text` with words redacted that are a prefix or a suffix of the secret, as in `a key that ends with abcd`.
    #[must_use]
    pub fn ends_redacted_from(&self, text: &str) -> String {
        let is_of_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-');
        let is_end = |word: &str| {
            let is_part = word.len() >= SHORTEST_END && 2 * word.len() <= self.0.len();
            is_part && (self.0.starts_with(word) || self.0.ends_with(word))
        };
        let words = text.split_inclusive(|letter| !is_of_word(letter));
        words.fold(String::with_capacity(text.len()), |mut cleaned, piece| {
            let word = piece.trim_end_matches(|letter| !is_of_word(letter));
            cleaned.push_str(if is_end(word) { "[redacted]" } else { word });
            cleaned.push_str(&piece[word.len()..]);
            cleaned
        })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

/// A setting of a manifest: a literal, or a reference to a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// Written in the manifest. It may still be a key, so it is treated as one.
    Literal(Secret),
    Reference(SecretRef),
}

impl SecretSource {
    /// The name of the secret, if it is one.
    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        match self {
            Self::Literal(_) => None,
            Self::Reference(reference) => Some(&reference.name),
        }
    }
}

/// Why a secret could not be read. The messages name it and never contain its value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("secret `{name}` has no key `{key}` in namespace `{namespace}`; {hint}")]
    Missing { namespace: Namespace, name: String, key: String, hint: String },
    #[error("secret reference `{name}`/`{key}` is not made of letters, digits, `-`, `_` and `.`")]
    BadReference { name: String, key: String },
    #[error(
        "secret `{name}` may not be sent to {address}: its key `{ALLOWED_HOSTS}` does not list that address; a host without a \
         scheme means https"
    )]
    HostNotAllowed { name: String, address: String },
    #[error(
        "secret `{name}` is not sent anywhere: line {line} of its key `{ALLOWED_HOSTS}` is not a host; write `api.example.com`, \
         `api.example.com:8443`, `https://api.example.com` or `*.example.com`"
    )]
    BadHosts { name: String, line: usize },
    #[error(
        "secret `{name}` may not be sent to {address} by a stored manifest: no manifest in a file of namespace \
         `{namespace}` sends it there; list the host in `<secrets>/{namespace}/{name}/{ALLOWED_HOSTS}`, or put the manifest \
         in a file"
    )]
    NotGranted { namespace: Namespace, name: String, address: String },
    #[error(
        "secret `{name}` may not be sent in the body of a request by a stored manifest; use `headers` or a model's \
         `apiKey`, or put the manifest in a file"
    )]
    NotInBody { name: String },
    #[error("secret `{name}`/`{key}` points outside the directory of secrets")]
    Outside { name: String, key: String },
    #[error("secret `{name}`/`{key}` is larger than {LARGEST} bytes")]
    TooLarge { name: String, key: String },
    #[error("secret `{name}`/`{key}` is not UTF-8 text")]
    NotText { name: String, key: String },
    #[error("secret `{name}`/`{key}` cannot be read")]
    Unreadable {
        name: String,
        key: String,
        #[source]
        source: std::io::Error,
    },
}

impl SecretError {
    /// Whether the secret may not be sent to the destination; otherwise it could not be read.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::HostNotAllowed { .. } | Self::BadHosts { .. } | Self::NotGranted { .. } | Self::NotInBody { .. } => {
                true
            }
            Self::Missing { .. }
            | Self::BadReference { .. }
            | Self::Outside { .. }
            | Self::TooLarge { .. }
            | Self::NotText { .. }
            | Self::Unreadable { .. } => false,
        }
    }
}

/// Where secrets are stored: a directory laid out as Kubernetes mounts them, and the environment.
#[derive(Clone, Default)]
pub struct Secrets {
    directory: Option<PathBuf>,
    environment: HashMap<String, Secret>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secrets").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Secrets {
    /// Secrets in `<directory>/<namespace>/<name>/<key>`, then in variables `BOSUN_SECRET_<NAME>_<KEY>`.
    ///
    /// Other variables are not kept. The environment has no namespaces, so it applies to the namespace `default` only.
    #[must_use]
    pub fn new(directory: Option<PathBuf>, environment: impl IntoIterator<Item = (String, String)>) -> Self {
        let kept = environment.into_iter().filter(|(name, _)| name.starts_with(ENVIRONMENT_PREFIX));
        Self { directory, environment: kept.map(|(name, value)| (name, Secret::new(value))).collect() }
    }

    /// The current value of `source`, to be sent as `part` of a request; `None` if it is optional and absent.
    ///
    /// # Errors
    /// If it may not be sent there, or as [`Secrets::resolve`].
    pub async fn resolve_for(
        &self,
        namespace: &Namespace,
        source: &SecretSource,
        part: HostPart,
        to: Destination<'_>,
        reach: &SecretReach,
    ) -> Result<Option<Secret>, SecretError> {
        if let SecretSource::Reference(reference) = source {
            self.permit(namespace, reference, part, to, reach).await?;
        }
        self.resolve(namespace, source).await
    }

    /// The current value of `source`; `None` if it is optional and absent.
    ///
    /// # Errors
    /// If the secret is absent, or is not a valid one.
    pub async fn resolve(&self, namespace: &Namespace, source: &SecretSource) -> Result<Option<Secret>, SecretError> {
        let reference = match source {
            SecretSource::Literal(secret) => return Ok(Some(secret.clone())),
            SecretSource::Reference(reference) => reference,
        };
        let SecretRef { name, key, optional } = reference;
        if !is_component(name) || !is_component(key) {
            return Err(SecretError::BadReference { name: clip(name), key: clip(key) });
        }
        if let Some(directory) = &self.directory
            && let Some(secret) = read(directory, namespace, name, key).await?
        {
            return Ok(Some(secret));
        }
        let variable = variable(name, key);
        if *namespace == Namespace::default()
            && let Some(secret) = self.environment.get(&variable)
        {
            return Ok(Some(secret.clone()));
        }
        if *optional {
            return Ok(None);
        }
        let file = format!("<secrets>/{namespace}/{name}/{key}");
        let hint = if *namespace == Namespace::default() {
            format!("put it into `{file}` or set `{variable}`")
        } else {
            format!("put it into `{file}`")
        };
        Err(SecretError::Missing { namespace: namespace.clone(), name: name.clone(), key: key.clone(), hint })
    }
}

/// The environment variable of a secret: upper case, with `_` for every other character.
fn variable(name: &str, key: &str) -> String {
    let spelled = |text: &str| {
        let letters =
            text.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' });
        letters.collect::<String>()
    };
    format!("{ENVIRONMENT_PREFIX}{}_{}", spelled(name), spelled(key))
}

/// Whether `text` is a single path component that cannot leave the directory.
fn is_component(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= 253 && !text.starts_with('.') && text.bytes().all(is_plain)
}

/// Sanitises what an error shows of a reference.
fn clip(shown: &str) -> String {
    text::clip(shown, 80)
}

async fn read(root: &Path, namespace: &Namespace, name: &str, key: &str) -> Result<Option<Secret>, SecretError> {
    let unreadable = |source| SecretError::Unreadable { name: name.into(), key: key.into(), source };
    let path = root.join(namespace.as_str()).join(name).join(key);
    // Kubernetes mounts each key as a link to a link, so links are followed, but not out of the root.
    let file = match tokio::fs::canonicalize(&path).await {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
    };
    let root = tokio::fs::canonicalize(root).await.map_err(unreadable)?;
    if !file.starts_with(root.join(namespace.as_str())) {
        return Err(SecretError::Outside { name: name.into(), key: key.into() });
    }
    let length = tokio::fs::metadata(&file).await.map_err(unreadable)?.len();
    if length > LARGEST {
        return Err(SecretError::TooLarge { name: name.into(), key: key.into() });
    }
    let bytes = tokio::fs::read(&file).await.map_err(unreadable)?;
    let mut text = String::from_utf8(bytes).map_err(|_| SecretError::NotText { name: name.into(), key: key.into() })?;
    // Editors and `echo` end a file with a line break that is not part of the key.
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(Some(Secret::new(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(name: &str, key: &str) -> SecretSource {
        SecretSource::Reference(SecretRef { name: name.into(), key: key.into(), optional: false })
    }

    fn write(root: &Path, path: &str, content: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    async fn resolve(secrets: &Secrets, namespace: &str, source: &SecretSource) -> Result<String, String> {
        match secrets.resolve(&namespace.parse().unwrap(), source).await {
            Ok(Some(secret)) => Ok(secret.expose().to_owned()),
            Ok(None) => Ok("absent".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[tokio::test]
    async fn a_secret_is_read_from_its_file_when_it_is_needed() {
        let root = tempfile::tempdir().unwrap();
        let secrets = Secrets::new(Some(root.path().to_owned()), []);
        let source = reference("openai", "api-key");
        assert!(resolve(&secrets, "default", &source).await.is_err());
        write(root.path(), "default/openai/api-key", "first\n");
        assert_eq!(resolve(&secrets, "default", &source).await, Ok("first".into()));
        write(root.path(), "default/openai/api-key", "rotated\r\n");
        assert_eq!(resolve(&secrets, "default", &source).await, Ok("rotated".into()));
    }

    #[tokio::test]
    async fn a_secret_belongs_to_its_namespace() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "team-a/openai/api-key", "a's");
        let environment = [("BOSUN_SECRET_OPENAI_API_KEY".to_owned(), "of the default".to_owned())];
        let secrets = Secrets::new(Some(root.path().to_owned()), environment);
        let source = reference("openai", "api-key");
        assert_eq!(resolve(&secrets, "team-a", &source).await, Ok("a's".into()));
        assert_eq!(resolve(&secrets, "default", &source).await, Ok("of the default".into()));
        assert_eq!(
            resolve(&secrets, "team-b", &source).await.unwrap_err(),
            "secret `openai` has no key `api-key` in namespace `team-b`; put it into `<secrets>/team-b/openai/api-key`"
        );
    }

    #[tokio::test]
    async fn a_variable_spells_the_name_in_upper_case() {
        let environment = [
            ("BOSUN_SECRET_MY_MODEL_API_KEY_V2".to_owned(), "k".to_owned()),
            ("OPENAI_API_KEY".to_owned(), "no".to_owned()),
        ];
        let secrets = Secrets::new(None, environment);
        assert_eq!(resolve(&secrets, "default", &reference("my-model", "api.key_v2")).await, Ok("k".into()));
        assert_eq!(
            resolve(&secrets, "default", &reference("other", "key")).await.unwrap_err(),
            "secret `other` has no key `key` in namespace `default`; \
             put it into `<secrets>/default/other/key` or set `BOSUN_SECRET_OTHER_KEY`"
        );
        let optional = SecretSource::Reference(SecretRef { name: "other".into(), key: "key".into(), optional: true });
        assert_eq!(resolve(&secrets, "default", &optional).await, Ok("absent".into()));
    }

    #[tokio::test]
    async fn no_reference_escapes_the_directory() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "team-a/openai/api-key", "a's");
        write(root.path(), "default/openai/api-key", "ours");
        let secrets = Secrets::new(Some(root.path().to_owned()), []);
        for (name, key) in
            [("..", "x"), ("openai", "../../team-a/openai/api-key"), ("/etc", "passwd"), ("", "x"), ("a", "b\0")]
        {
            let error = resolve(&secrets, "default", &reference(name, key)).await.unwrap_err();
            assert!(error.starts_with("secret reference"), "{error}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(root.path().join("team-a/openai"), root.path().join("default/stolen")).unwrap();
            let error = resolve(&secrets, "default", &reference("stolen", "api-key")).await.unwrap_err();
            assert_eq!(error, "secret `stolen`/`api-key` points outside the directory of secrets");
            // The layout of a secret mounted by Kubernetes.
            write(root.path(), "default/mounted/..2026/key", "mounted");
            std::os::unix::fs::symlink("..2026", root.path().join("default/mounted/..data")).unwrap();
            std::os::unix::fs::symlink("..data/key", root.path().join("default/mounted/key")).unwrap();
            assert_eq!(resolve(&secrets, "default", &reference("mounted", "key")).await, Ok("mounted".into()));
        }
    }

    #[tokio::test]
    async fn an_invalid_secret_is_refused() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "default/big/key", &"x".repeat(70_000));
        std::fs::create_dir_all(root.path().join("default/bytes")).unwrap();
        std::fs::write(root.path().join("default/bytes/key"), [0xff, 0xfe]).unwrap();
        std::fs::create_dir_all(root.path().join("default/folder/key")).unwrap();
        let secrets = Secrets::new(Some(root.path().to_owned()), []);
        for (name, expect) in [("big", "larger than"), ("bytes", "not UTF-8"), ("folder", "cannot be read")] {
            let error = resolve(&secrets, "default", &reference(name, "key")).await.unwrap_err();
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn a_secret_is_redacted_in_every_encoding() {
        for value in ["sk-canary+7/f3a=", "a\"quoted\\one", "with space", "line\nbreak", "ünï-cödé"] {
            let secret = Secret::new(value.to_owned());
            let json = serde_json::to_string(value).unwrap();
            for form in forms::of(value) {
                let cleaned = secret.redacted_from(&format!("before {form} after"));
                assert_eq!(cleaned, "before [redacted] after", "{form}");
            }
            assert_eq!(secret.redacted_from(&json), "\"[redacted]\"");
        }
        assert_eq!(Secret::new(String::new()).redacted_from("text"), "text");
    }

    #[test]
    fn the_ends_of_a_secret_are_redacted_and_other_words_are_not() {
        let secret = Secret::new("hushhush-0123456789-WXYZ".into());
        for (text, expect) in [
            ("the key that ends with WXYZ is wrong", "the key that ends with [redacted] is wrong"),
            ("hushhush is no key", "[redacted] is no key"),
            ("(hushhush-012)", "([redacted])"),
            ("it is XYZ, hush", "it is XYZ, [redacted]"),
            ("", ""),
            ("no more words", "no more words"),
        ] {
            assert_eq!(secret.ends_redacted_from(text), expect, "{text}");
        }
        let word = Secret::new("overloaded".into());
        assert_eq!(
            word.ends_redacted_from("the server is overloaded"),
            "the server is overloaded",
            "whole values are redacted elsewhere"
        );
    }

    #[test]
    fn debug_does_not_show_a_secret() {
        let secret = Secret::new("canary-7f3a".into());
        let secrets = Secrets::new(None, [("BOSUN_SECRET_A_B".to_owned(), "canary-7f3a".to_owned())]);
        let shown = format!("{secret:?} {:?} {secrets:?}", SecretSource::Literal(secret.clone()));
        assert!(!shown.contains("canary"), "{shown}");
    }
}
