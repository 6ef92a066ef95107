//! JSON as in rt-app's files: a tree that keeps the order of keys, repeated keys, and all
//! positions.
//!
//! rt-app reads with json-c, which accepts comments, trailing commas and single quotes. rt-app's companion `workgen`
//! also accepts a key twice in one object and `"suspend"` without a value; the examples that rt-app ships use all of
//! these. Tokens come from `jsonc-parser`, whose own trees lose repeated keys.

use jsonc_parser::tokens::Token;
use jsonc_parser::{Scanner, ScannerOptions};
use machine::input::{BOM, BadInput};
use std::ops::Range;

/// The maximum nesting of objects and arrays; rt-app's grammar needs 6.
const MAX_DEPTH: usize = 32;

/// A file's name and text, for messages.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    /// Makes the error about the bytes `at`, which says what is wrong with them and what was expected.
    pub fn bad(
        &self,
        at: &Range<usize>,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) -> Box<BadInput> {
        Box::new(BadInput::at(
            self.file,
            self.text,
            at.clone(),
            message,
            expected,
        ))
    }
}

pub struct Value {
    pub at: Range<usize>,
    pub kind: Kind,
}

pub enum Kind {
    Null,
    Bool(bool),
    /// A number, as written in the file.
    Number(String),
    /// The text with escapes resolved.
    String(String),
    /// `[...]`
    Array(Vec<Value>),
    /// `{...}`, in order.
    Object(Vec<Entry>),
}

pub struct Entry {
    /// The key, with escapes resolved.
    pub key: String,
    pub key_at: Range<usize>,
    /// The value; `None` for `"key",`.
    pub value: Option<Value>,
}

impl Value {
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "null".to_owned(),
            Kind::Bool(value) => value.to_string(),
            Kind::Number(text) => text.clone(),
            Kind::String(text) => format!("\"{text}\""),
            Kind::Array(items) if items.is_empty() => "an empty array".to_owned(),
            Kind::Array(_) => "an array".to_owned(),
            Kind::Object(entries) if entries.is_empty() => "an empty object".to_owned(),
            Kind::Object(_) => "an object".to_owned(),
        }
    }
}

/// The tree of `source`, or its first mistake.
pub fn parse(source: Source<'_>) -> Result<Value, Box<BadInput>> {
    let options = ScannerOptions {
        allow_single_quoted_strings: true,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let mut parser = Parser {
        scanner: Scanner::new(source.text, &options),
        source,
        token: None,
        at: 0..0,
    };
    if source.text.starts_with(BOM) {
        return Err(source.bad(
            &(0..BOM.len_utf8()),
            "not JSON: the file begins with a byte order mark",
            "expected UTF-8 without a byte order mark, which json-c and therefore rt-app refuse",
        ));
    }
    parser.advance()?;
    let value = parser.value(0)?;
    match parser.token {
        None => Ok(value),
        Some(_) => Err(parser.unexpected("the end of the file")),
    }
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    source: Source<'a>,
    /// The current token; `None` at the end of the file.
    token: Option<Token<'a>>,
    at: Range<usize>,
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<(), Box<BadInput>> {
        loop {
            let token = self.scanner.scan().map_err(|error| {
                let at = error.range();
                self.source.bad(
                    &(at.start..at.end),
                    format!("not JSON: {}", error.kind()),
                    "expected JSON",
                )
            })?;
            if matches!(
                token,
                Some(Token::CommentLine(_)) | Some(Token::CommentBlock(_))
            ) {
                continue;
            }
            self.token = token;
            self.at = match self.token {
                Some(_) => self.scanner.token_start()..self.scanner.token_end(),
                None => self.source.text.len()..self.source.text.len(),
            };
            return Ok(());
        }
    }

    fn unexpected(&self, expected: &str) -> Box<BadInput> {
        let found = match &self.token {
            Some(token) => format!("`{}`", token.as_str()),
            None => "the end of the file".to_owned(),
        };
        self.source.bad(
            &self.at,
            format!("not JSON: {found} is unexpected here"),
            format!("expected {expected}"),
        )
    }

    fn value(&mut self, depth: usize) -> Result<Value, Box<BadInput>> {
        if depth > MAX_DEPTH {
            return Err(self.source.bad(
                &self.at,
                format!("objects and arrays are nested more than {MAX_DEPTH} levels deep"),
                "expected an rt-app file",
            ));
        }
        let start = self.at.start;
        let kind = match self.token.take() {
            Some(Token::Null) => Kind::Null,
            Some(Token::Boolean(value)) => Kind::Bool(value),
            Some(Token::Number(text)) => Kind::Number(text.to_owned()),
            Some(Token::String(text)) => Kind::String(text.into_owned()),
            Some(Token::OpenBracket) => return self.array(start, depth),
            Some(Token::OpenBrace) => return self.object(start, depth),
            token => {
                self.token = token;
                return Err(self.unexpected("a value"));
            }
        };
        let at = self.at.clone();
        self.advance()?;
        Ok(Value { at, kind })
    }

    fn array(&mut self, start: usize, depth: usize) -> Result<Value, Box<BadInput>> {
        let mut items = Vec::new();
        self.advance()?;
        while self.token != Some(Token::CloseBracket) {
            items.push(self.value(depth + 1)?);
            self.comma_before(Token::CloseBracket, "`,` or `]`")?;
        }
        self.close(start, Kind::Array(items))
    }

    fn object(&mut self, start: usize, depth: usize) -> Result<Value, Box<BadInput>> {
        let mut entries = Vec::new();
        self.advance()?;
        while self.token != Some(Token::CloseBrace) {
            let key_at = self.at.clone();
            let key = match self.token.take() {
                Some(Token::String(key)) => key.into_owned(),
                token => {
                    self.token = token;
                    return Err(self.unexpected("a key in quotes or `}`"));
                }
            };
            self.advance()?;
            let value = if self.token == Some(Token::Colon) {
                self.advance()?;
                Some(self.value(depth + 1)?)
            } else {
                None
            };
            entries.push(Entry { key, key_at, value });
            self.comma_before(Token::CloseBrace, "`:`, `,` or `}`")?;
        }
        self.close(start, Kind::Object(entries))
    }

    fn comma_before(&mut self, close: Token<'_>, expected: &str) -> Result<(), Box<BadInput>> {
        match &self.token {
            Some(Token::Comma) => self.advance(),
            Some(token) if *token == close => Ok(()),
            _ => Err(self.unexpected(expected)),
        }
    }

    fn close(&mut self, start: usize, kind: Kind) -> Result<Value, Box<BadInput>> {
        let at = start..self.at.end;
        self.advance()?;
        Ok(Value { at, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Value, Box<BadInput>> {
        parse(Source {
            file: "t.json",
            text,
        })
    }

    #[test]
    fn keeps_order_repeats_and_missing_values() {
        let text = "{ /* c */ 'b': 1, \"a\": [2,], \"b\": {}, \"suspend\", }";
        let Kind::Object(entries) = read(text).unwrap().kind else {
            panic!("an object was written");
        };
        let keys: Vec<_> = entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["b", "a", "b", "suspend"]);
        assert!(entries[3].value.is_none());
        assert_eq!(&text[entries[1].key_at.clone()], "\"a\"");
        assert_eq!(&text[entries[1].value.as_ref().unwrap().at.clone()], "[2,]");
    }

    #[test]
    fn names_the_line_of_a_mistake() {
        let error = |text| read(text).err().unwrap().message().to_owned();
        assert!(error("{\n\"a\": 1\n\"b\": 2}").starts_with("t.json:3: "));
        assert!(error("{\n\"a\": }").starts_with("t.json:2: "));
        assert!(error("{}\n{}").starts_with("t.json:2: "));
        assert!(error("").starts_with("t.json:1: "));
        assert!(error("\u{feff}{}").contains("byte order mark"));
        assert!(error("{\n\n\"a").starts_with("t.json:3: "));
        assert!(error(&"[".repeat(100_000)).contains("deep"));
    }
}
