//! The regular expressions of Zod 4 that appear in its JSON Schemas.
//!
//! They are part of Zod's public behaviour: `z.toJSONSchema` returns the patterns.

pub(super) const EMOJI: &str = r"^(?=[\s\S]*[\p{Extended_Pictographic}\p{Regional_Indicator}\u20E3])[\p{Extended_Pictographic}\p{Emoji_Component}]+$";
pub(super) const ANY_TEXT: &str = r"^[\s\S]{0,}$";
pub(super) const NUMBER: &str = r"^-?\d+(?:\.\d+)?$";
pub(super) const INTEGER: &str = r"^-?\d+$";
pub(super) const BIGINT: &str = r"^-?\d+n?$";
pub(super) const BOOLEAN: &str = "^(?:true|false)$";
/// The pattern that Zod tests base64 strings with; the JSON Schema has the exact one.
pub(super) const LAX_BASE64: &str = "^[0-9a-zA-Z+/]*={0,2}$";
pub(super) const LAX_BASE64URL: &str = "^[A-Za-z0-9_-]*$";

const DATE: &str = r"(?:(?:\d\d[2468][048]|\d\d[13579][26]|\d\d0[48]|[02468][048]00|[13579][26]00)-02-29|\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|(?:02)-(?:0[1-9]|1\d|2[0-8])))";

const WHOLE_DATE: &str = r"^(?:(?:\d\d[2468][048]|\d\d[13579][26]|\d\d0[48]|[02468][048]00|[13579][26]00)-02-29|\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|(?:02)-(?:0[1-9]|1\d|2[0-8])))$";

/// A pattern by the name of its format or of its export under `z.regexes`.
pub(super) fn named(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "email" => (
            "email",
            r"^(?:[A-Za-z0-9_'+\-]+\.)*[A-Za-z0-9_'+\-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$",
        ),
        "html5Email" => (
            "html5Email",
            r"^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$",
        ),
        "browserEmail" => (
            "browserEmail",
            r"^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$",
        ),
        "rfc5322Email" => (
            "rfc5322Email",
            r#"^(([^<>()\[\]\\.,;:\s@"]+(\.[^<>()\[\]\\.,;:\s@"]+)*)|(".+"))@((\[[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}])|(([a-zA-Z\-0-9]+\.)+[a-zA-Z]{2,}))$"#,
        ),
        "unicodeEmail" | "idnEmail" => ("unicodeEmail", r#"^[^\s@"]{1,64}@[^\s@]{1,255}$"#),
        "guid" => ("guid", "^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})$"),
        "cuid" => ("cuid", "^[cC][0-9a-z]{6,}$"),
        "cuid2" => ("cuid2", "^[0-9a-z]+$"),
        "ulid" => ("ulid", "^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$"),
        "xid" => ("xid", "^[0-9a-vA-V]{20}$"),
        "ksuid" => ("ksuid", "^[A-Za-z0-9]{27}$"),
        "nanoid" => ("nanoid", "^[a-zA-Z0-9_-]{21}$"),
        "duration" => (
            "duration",
            r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$",
        ),
        "date" => ("date", WHOLE_DATE),
        "ipv4" => (
            "ipv4",
            r"^(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])$",
        ),
        "ipv6" => (
            "ipv6",
            r"^(([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,5}(:[0-9a-fA-F]{1,4}){1,2}|([0-9a-fA-F]{1,4}:){1,4}(:[0-9a-fA-F]{1,4}){1,3}|([0-9a-fA-F]{1,4}:){1,3}(:[0-9a-fA-F]{1,4}){1,4}|([0-9a-fA-F]{1,4}:){1,2}(:[0-9a-fA-F]{1,4}){1,5}|[0-9a-fA-F]{1,4}:((:[0-9a-fA-F]{1,4}){1,6})|:((:[0-9a-fA-F]{1,4}){1,7}|:))$",
        ),
        "cidrv4" => (
            "cidrv4",
            r"^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])\/([0-9]|[1-2][0-9]|3[0-2])$",
        ),
        "cidrv6" => (
            "cidrv6",
            r"^(([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,5}(:[0-9a-fA-F]{1,4}){1,2}|([0-9a-fA-F]{1,4}:){1,4}(:[0-9a-fA-F]{1,4}){1,3}|([0-9a-fA-F]{1,4}:){1,3}(:[0-9a-fA-F]{1,4}){1,4}|([0-9a-fA-F]{1,4}:){1,2}(:[0-9a-fA-F]{1,4}){1,5}|[0-9a-fA-F]{1,4}:((:[0-9a-fA-F]{1,4}){1,6})|:((:[0-9a-fA-F]{1,4}){1,7}|:))\/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$",
        ),
        "base64" => ("base64", LAX_BASE64),
        "base64url" => ("base64url", LAX_BASE64URL),
        "hostname" => (
            "hostname",
            r"^(?=.{1,253}\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\.?$",
        ),
        "domain" => ("domain", r"^(?=.{1,253}$)([a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}$"),
        "httpProtocol" => ("httpProtocol", "^https?$"),
        "e164" => ("e164", r"^\+[1-9]\d{6,14}$"),
        "credit_card" | "creditCard" => ("credit_card", r"^\d(?:[ -]?\d){11,18}$"),
        "currency_code" | "currencyCode" => ("currency_code", CURRENCIES),
        "iban" => ("iban", r"^[A-Z]{2}(?!00|01|99)\d{2}[A-Z0-9]{11,30}$"),
        "hex" => ("hex", "^[0-9a-fA-F]*$"),
        "integer" => ("integer", INTEGER),
        "number" => ("number", NUMBER),
        "lowercase" => ("lowercase", "^[^A-Z]*$"),
        "uppercase" => ("uppercase", "^[^a-z]*$"),
        _ => return None,
    })
}

/// The exact form of a pattern that Zod tests with a laxer one.
pub(super) fn exact(source: &str) -> &str {
    match source {
        LAX_BASE64 => r"^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$",
        LAX_BASE64URL => "^(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2,3})?$",
        other => other,
    }
}

pub(super) fn uuid(version: Option<&str>) -> String {
    match version {
        Some(version) => format!("^([0-9a-fA-F]{{8}}-[0-9a-fA-F]{{4}}-{version}[0-9a-fA-F]{{3}}-[89abAB][0-9a-fA-F]{{3}}-[0-9a-fA-F]{{12}})$"),
        None => "^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-ffffffffffff)$".to_owned(),
    }
}

pub(super) fn time(precision: Option<i32>, seconds: bool) -> String {
    const MINUTES: &str = r"(?:[01]\d|2[0-3]):[0-5]\d";
    match precision {
        Some(-1) => MINUTES.to_owned(),
        Some(0) => format!(r"{MINUTES}:[0-5]\d"),
        Some(digits) => format!(r"{MINUTES}:[0-5]\d\.\d{{{digits}}}"),
        None if seconds => format!(r"{MINUTES}:[0-5]\d(?:\.\d+)?"),
        None => format!(r"{MINUTES}(?::[0-5]\d(?:\.\d+)?)?"),
    }
}

pub(super) fn datetime(precision: Option<i32>, offset: bool, local: bool) -> String {
    let zones = if offset { r"Z|([+-](?:[01]\d|2[0-3]):[0-5]\d)" } else { "Z" };
    let qualified = format!("{}(?:{zones})", time(precision, true));
    let time = if local { format!("{qualified}|{}", time(precision, false)) } else { qualified };
    format!("^{DATE}T(?:{time})$")
}

pub(super) fn hash(algorithm: &str, encoding: &str) -> Option<String> {
    let (hex, base64, padding, base64url) = match algorithm {
        "md5" => (32, 22, "==", 22),
        "sha1" => (40, 27, "=", 27),
        "sha256" => (64, 43, "=", 43),
        "sha384" => (96, 64, "", 64),
        "sha512" => (128, 86, "==", 86),
        _ => return None,
    };
    match encoding {
        "hex" => Some(format!("^[0-9a-fA-F]{{{hex}}}$")),
        "base64" => Some(format!("^[A-Za-z0-9+/]{{{base64}}}{padding}$")),
        "base64url" => Some(format!("^[A-Za-z0-9_-]{{{base64url}}}$")),
        _ => None,
    }
}

/// ISO 4217.
const CURRENCIES: &str = "^(?:AED|AFN|ALL|AMD|AOA|ARS|AUD|AWG|AZN|BAM|BBD|BDT|BHD|BIF|BMD|BND|BOB|BOV|BRL|BSD|BTN|BWP|BYN|BZD|CAD|CDF|CHE|CHF|CHW|CLF|CLP|CNY|COP|COU|CRC|CUP|CVE|CZK|DJF|DKK|DOP|DZD|EGP|ERN|ETB|EUR|FJD|FKP|GBP|GEL|GHS|GIP|GMD|GNF|GTQ|GYD|HKD|HNL|HTG|HUF|IDR|ILS|INR|IQD|IRR|ISK|JMD|JOD|JPY|KES|KGS|KHR|KMF|KPW|KRW|KWD|KYD|KZT|LAK|LBP|LKR|LRD|LSL|LYD|MAD|MDL|MGA|MKD|MMK|MNT|MOP|MRU|MUR|MVR|MWK|MXN|MXV|MYR|MZN|NAD|NGN|NIO|NOK|NPR|NZD|OMR|PAB|PEN|PGK|PHP|PKR|PLN|PYG|QAR|RON|RSD|RUB|RWF|SAR|SBD|SCR|SDG|SEK|SGD|SHP|SLE|SOS|SRD|SSP|STN|SVC|SYP|SZL|THB|TJS|TMT|TND|TOP|TRY|TTD|TWD|TZS|UAH|UGX|USD|USN|UYI|UYU|UYW|UZS|VED|VES|VND|VUV|WST|XAD|XAF|XAG|XAU|XBA|XBB|XBC|XBD|XCD|XCG|XDR|XOF|XPD|XPF|XPT|XSU|XTS|XUA|XXX|YER|ZAR|ZMW|ZWG)$";
