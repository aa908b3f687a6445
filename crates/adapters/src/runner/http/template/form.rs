//! The fields of a form as the text of a body: `application/x-www-form-urlencoded` or `multipart/form-data`.

use bosun_core::{ContentHash, ceiling::RENDERED_BYTES};

use super::RenderError;

pub(super) const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";

/// The text of a body.
#[derive(Debug)]
pub(super) struct RenderedBody {
    pub(super) text: String,
    /// The `Content-Type`, where it is known only with the text: that of multipart names a boundary.
    pub(super) content_type: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormEncoding {
    UrlEncoded,
    Multipart,
}

impl FormEncoding {
    /// The encoding that a `Content-Type` asks for. One that has a boundary describes a body that is already encoded.
    pub(super) fn of(essence: &str, content_type: Option<&str>) -> Option<Self> {
        let has_boundary = content_type.is_some_and(|header| header.to_ascii_lowercase().contains("boundary="));
        match essence {
            FORM => Some(Self::UrlEncoded),
            MULTIPART if !has_boundary => Some(Self::Multipart),
            _ => None,
        }
    }
}

/// What a field of a multipart body is; the other encoding has only texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    Text,
    Json,
    /// A file whose content is text. It has the name of its field.
    File,
}

/// A form of bounded size.
pub(super) struct FormWriter {
    encoding: FormEncoding,
    fields: Vec<(String, String, FieldKind)>,
    size: usize,
}

impl FormWriter {
    pub(super) fn new(encoding: FormEncoding) -> Self {
        Self { encoding, fields: Vec::new(), size: 0 }
    }

    pub(super) fn append(&mut self, name: String, value: String, kind: FieldKind) -> Result<(), RenderError> {
        self.size += name.len() + value.len();
        if self.size > RENDERED_BYTES {
            return Err(RenderError::TooLarge(RENDERED_BYTES));
        }
        self.fields.push((name, value, kind));
        Ok(())
    }

    /// The text; `None` without fields: a multipart body has at least one part.
    pub(super) fn finish(self) -> Option<RenderedBody> {
        if self.fields.is_empty() {
            return None;
        }
        Some(match self.encoding {
            FormEncoding::UrlEncoded => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                form.extend_pairs(self.fields.iter().map(|(name, value, _)| (name, value)));
                RenderedBody { text: form.finish(), content_type: None }
            }
            FormEncoding::Multipart => self.multipart(),
        })
    }

    /// RFC 7578. The boundary is a hash of the fields: a value would have to contain its own hash to end its part.
    fn multipart(self) -> RenderedBody {
        let texts = self.fields.iter().flat_map(|(name, value, _)| [name.as_bytes(), value.as_bytes()]);
        let boundary = format!("bosun-{}", ContentHash::of_parts(&texts.collect::<Vec<_>>()));
        let mut text = String::with_capacity(self.size + self.fields.len() * 160);
        for (name, value, kind) in &self.fields {
            let name = quoted(name);
            text.push_str(&format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\""));
            text.push_str(match kind {
                FieldKind::Text => "",
                FieldKind::Json => "\r\nContent-Type: application/json",
                FieldKind::File => "; filename=\"",
            });
            if *kind == FieldKind::File {
                text.push_str(&format!("{name}\"\r\nContent-Type: application/octet-stream"));
            }
            text.push_str("\r\n\r\n");
            text.push_str(value);
            text.push_str("\r\n");
        }
        text.push_str(&format!("--{boundary}--\r\n"));
        RenderedBody { text, content_type: Some(format!("{MULTIPART}; boundary={boundary}")) }
    }
}

/// A name within quotes, escaped as HTML's forms do.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}
