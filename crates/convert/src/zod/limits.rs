//! Bounds on the text that are checked before it is parsed.
//!
//! The parser is a recursive descent: it can go one level deeper only by consuming a token that is not closed yet. So a
//! cheap scan that counts unclosed tokens bounds the parser's stack, whatever the nesting consists of (brackets,
//! `!!!…`, `a => a => …`, `x ? y : x ? …`). The scan knows just enough of the lexical grammar to skip strings,
//! templates, comments and regular expressions, and rejects the rare slash that it cannot classify, because a wrong
//! guess could hide depth.

use super::fault::ZodProblem;

/// Maximum size of a source. A file of tools is a few kilobytes; a bundle is not a source.
pub(super) const LONGEST_SOURCE: usize = 4 * 1024 * 1024;

/// Maximum number of open tokens. A statement of this length is generated code.
const MOST_OPEN_TOKENS: u32 = 8_000;

/// Stack for the parser and the walks over its tree. Pages that are not touched cost nothing.
pub(super) const STACK: usize = 256 * 1024 * 1024;

/// Rejects a text that is too long or nested too deeply to be parsed safely.
pub(super) fn check(source: &str) -> Result<(), ZodProblem> {
    if source.len() > LONGEST_SOURCE {
        let message = format!("the source has {} bytes; at most {LONGEST_SOURCE} are read", source.len());
        return Err(
            ZodProblem::new(0, "source_too_long", message).hint("pass the file that defines the tools, not a bundle")
        );
    }
    Scan::new(source).run()
}

/// How a slash after the last token has to be read.
#[derive(Clone, Copy, PartialEq)]
enum SlashContext {
    /// An operand has ended: a slash divides.
    Operand,
    /// An operand is expected: a slash begins a regular expression.
    Operator,
    /// Only a parser can decide: `}`, a postfix `!`, a `>` that may close type arguments, …
    Either,
}

struct Scan<'text> {
    text: &'text str,
    at: usize,
    before: SlashContext,
    last: &'text str,
    open: Vec<Level>,
    /// The sum over `open`.
    total: u32,
}

/// The open tokens inside one pair of brackets.
#[derive(Default)]
struct Level {
    /// Tokens since the last `,` or `;`.
    tokens: u32,
    /// `<` without its `>`, since the last `;`: type arguments nest across commas.
    angles: u32,
    /// `else` nests across semicolons.
    elses: u32,
    /// `${` of a template: its `}` resumes the template's text.
    in_template: bool,
    /// The parenthesis of `if (…)` and its like: a statement follows.
    heads_statement: bool,
}

impl<'text> Scan<'text> {
    fn new(text: &'text str) -> Self {
        Self { text, at: 0, before: SlashContext::Operator, last: "", open: vec![Level::default()], total: 0 }
    }

    fn run(mut self) -> Result<(), ZodProblem> {
        if self.text.starts_with("#!") {
            self.skip_line();
        }
        while let Some(character) = self.peek() {
            let start = self.at;
            let rest = self.rest();
            match character {
                _ if is_space(character) => {
                    self.at += character.len_utf8();
                    continue;
                }
                '/' if rest.starts_with("//") => {
                    self.skip_line();
                    continue;
                }
                '/' if rest.starts_with("/*") => {
                    self.at += rest.find("*/").map_or(rest.len(), |end| end + 2);
                    continue;
                }
                '/' => self.slash()?,
                '"' | '\'' => self.string(character)?,
                '`' => {
                    self.at += 1;
                    self.template()?;
                }
                '(' | '[' | '{' => self.enter(1, false)?,
                ')' | ']' | '}' => self.leave(character)?,
                ';' | ',' => {
                    self.at += 1;
                    self.separate(character == ';');
                    self.before = SlashContext::Operator;
                }
                _ if is_word(character) => self.word()?,
                _ => self.punctuation(character)?,
            }
            self.last = self.text.get(start..self.at).unwrap_or_default();
        }
        Ok(())
    }

    fn rest(&self) -> &'text str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_line(&mut self) {
        self.at = self.end_of_line();
    }

    fn end_of_line(&self) -> usize {
        let rest = self.rest();
        self.at + rest.find(['\n', '\r', '\u{2028}', '\u{2029}']).unwrap_or(rest.len())
    }

    fn count(&mut self) -> Result<(), ZodProblem> {
        self.count_as(|level| &mut level.tokens)
    }

    fn count_as(&mut self, counter: impl FnOnce(&mut Level) -> &mut u32) -> Result<(), ZodProblem> {
        if let Some(level) = self.open.last_mut() {
            *counter(level) += 1;
        }
        self.total += 1;
        if self.total > MOST_OPEN_TOKENS {
            let message = format!("the source is nested too deeply: more than {MOST_OPEN_TOKENS} tokens are open here");
            return Err(ZodProblem::new(offset(self.at), "nested_too_deeply", message));
        }
        Ok(())
    }

    fn enter(&mut self, length: usize, in_template: bool) -> Result<(), ZodProblem> {
        self.at += length;
        self.count()?;
        let heads_statement = matches!(self.last, "if" | "while" | "for" | "with");
        self.open.push(Level { in_template, heads_statement, ..Level::default() });
        self.before = SlashContext::Operator;
        Ok(())
    }

    fn separate(&mut self, ends_statement: bool) {
        if let Some(level) = self.open.last_mut() {
            self.total -= level.tokens;
            level.tokens = 0;
            if ends_statement {
                self.total -= level.angles;
                level.angles = 0;
            }
        }
    }

    fn leave(&mut self, bracket: char) -> Result<(), ZodProblem> {
        self.at += 1;
        self.before = match bracket {
            '}' => SlashContext::Either,
            _ => SlashContext::Operand,
        };
        // The parser reports a closing bracket without an opening one.
        if self.open.len() > 1
            && let Some(level) = self.open.pop()
        {
            self.total -= level.tokens + level.angles + level.elses;
            if level.in_template {
                return self.template();
            }
            if bracket == ')' && level.heads_statement {
                self.before = SlashContext::Operator;
            }
        }
        Ok(())
    }

    /// A string ends at its quote or, unterminated, with its line, where parsing stops too.
    fn string(&mut self, quote: char) -> Result<(), ZodProblem> {
        let mut characters = self.rest().char_indices().skip(1);
        let mut length = self.rest().len();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => {
                    characters.next();
                }
                _ if character == quote || character == '\n' => {
                    length = at + 1;
                    break;
                }
                _ => {}
            }
        }
        self.at += length;
        self.before = SlashContext::Operand;
        self.count()
    }

    /// The text of a template up to its end or its next `${`.
    fn template(&mut self) -> Result<(), ZodProblem> {
        while let Some(character) = self.peek() {
            match character {
                '\\' => {
                    self.at += 1;
                    self.at += self.peek().map_or(0, char::len_utf8);
                }
                '`' => {
                    self.at += 1;
                    break;
                }
                '$' if self.rest().starts_with("${") => return self.enter(2, true),
                _ => self.at += character.len_utf8(),
            }
        }
        self.before = SlashContext::Operand;
        self.count()
    }

    fn word(&mut self) -> Result<(), ZodProblem> {
        let rest = self.rest();
        let length = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default();
        self.at += length;
        // A member name is an operand even when it is spelled like a keyword.
        let member = matches!(self.last, "." | "?.");
        self.before = match word {
            _ if member => SlashContext::Operand,
            "return" | "typeof" | "case" | "do" | "else" | "in" | "instanceof" | "new" | "void" | "delete"
            | "throw" | "extends" | "default" => SlashContext::Operator,
            "await" | "yield" | "of" | "async" | "get" | "set" | "as" | "satisfies" => SlashContext::Either,
            _ => SlashContext::Operand,
        };
        // These always begin a statement, so everything before them is closed. Others may be inside an expression and
        // must not hide its depth, like the `const` of `as const`.
        let statement = matches!(word, "const" | "var" | "export" | "return" | "throw");
        if statement && !member && !matches!(self.last, "as" | "<") {
            self.separate(true);
        }
        if word == "else" && !member { self.count_as(|level| &mut level.elses) } else { self.count() }
    }

    fn punctuation(&mut self, character: char) -> Result<(), ZodProblem> {
        let rest = self.rest();
        let after_operand = self.before != SlashContext::Operator;
        let (length, before) = match character {
            '+' | '-' if rest.starts_with("++") || rest.starts_with("--") => (2, SlashContext::Either),
            '=' if rest.starts_with("=>") => (2, SlashContext::Operator),
            '?' if rest.starts_with("?.") => (2, SlashContext::Operator),
            // `a! / b` divides, `!/b/` does not.
            '!' if after_operand && !rest.starts_with("!=") => (1, SlashContext::Either),
            // `1. / 2` divides; so may `f<T> / 2`.
            '.' | '>' => (1, SlashContext::Either),
            _ => (character.len_utf8(), SlashContext::Operator),
        };
        self.at += length;
        self.before = before;
        match character {
            '<' => self.count_as(|level| &mut level.angles),
            '>' => {
                if let Some(level) = self.open.last_mut().filter(|level| level.angles > 0) {
                    level.angles -= 1;
                    self.total -= 1;
                }
                Ok(())
            }
            _ => self.count(),
        }
    }

    fn slash(&mut self) -> Result<(), ZodProblem> {
        let regex = self.regex();
        let is_regex = match self.before {
            SlashContext::Operand => false,
            SlashContext::Operator => true,
            SlashContext::Either => {
                // Without a second slash on the line it divides, and a text that reads the same either way needs no
                // decision.
                let body = regex.strip_suffix('/').filter(|_| regex.len() > 1);
                if body
                    .is_some_and(|body| body.contains(['"', '\'', '`', '(', ')', '[', ']', '{', '}', '\\', '<', '*']))
                {
                    let problem = ZodProblem::new(
                        offset(self.at),
                        "ambiguous_slash",
                        "this `/` may divide or begin a regular expression",
                    );
                    return Err(problem.hint("put the regular expression into a constant of its own"));
                }
                false
            }
        };
        self.at += if is_regex { regex.len() } else { 1 };
        self.before = if is_regex { SlashContext::Operand } else { SlashContext::Operator };
        self.count()
    }

    /// The regular expression that begins here, up to its closing slash or the end of the line.
    fn regex(&self) -> &'text str {
        let line = self.text.get(self.at..self.end_of_line()).unwrap_or_default();
        let mut in_class = false;
        let mut characters = line.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => {
                    characters.next();
                }
                '[' => in_class = true,
                ']' => in_class = false,
                '/' if !in_class => return line.get(..=at).unwrap_or(line),
                _ => {}
            }
        }
        line
    }
}

/// The white space and line ends of the grammar.
fn is_space(character: char) -> bool {
    character.is_whitespace() || character == '\u{feff}'
}

/// Precise enough to find the ends of words: every letter of any script counts as part of one.
fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric()
        || matches!(character, '_' | '$' | '#' | '@')
        || (!character.is_ascii() && !is_space(character))
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
