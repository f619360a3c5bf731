//! Redis, the reader of `redis.conf`: `loadServerConfigFromString` (`config.c`) and `sdssplitargs` (`sds.c`) of 7.0.

use std::{collections::BTreeMap, iter::Peekable, str::Chars};

use super::super::ReadError;

/// The directives of the file in lower case, each with its arguments; of several equal ones the last.
///
/// # Errors
/// A line that Redis does not start with; also an escaped byte that is no ASCII character.
pub fn redis(text: &str) -> Result<BTreeMap<String, Vec<String>>, ReadError> {
    let mut directives = BTreeMap::new();
    for (number, line) in (1..).zip(text.split('\n')) {
        let line = line.trim_matches([' ', '\t', '\r', '\n']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut arguments = split(line).map_err(|why| ReadError { line: number, why })?.into_iter();
        if let Some(directive) = arguments.next() {
            directives.insert(directive.to_lowercase(), arguments.collect());
        }
    }
    Ok(directives)
}

/// What C's `isspace` takes for white space.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut rest = line.chars().peekable();
    let mut arguments = Vec::new();
    loop {
        while rest.next_if(|c| is_space(*c)).is_some() {}
        if rest.peek().is_none() {
            return Ok(arguments);
        }
        arguments.push(argument(&mut rest)?);
    }
}

fn argument(rest: &mut Peekable<Chars<'_>>) -> Result<String, &'static str> {
    let mut argument = String::new();
    while let Some(c) = rest.next_if(|c| !is_space(*c)) {
        match c {
            '"' => return quoted(rest, argument),
            '\'' => return literal(rest, argument),
            c => argument.push(c),
        }
    }
    Ok(argument)
}

fn quoted(rest: &mut Peekable<Chars<'_>>, mut argument: String) -> Result<String, &'static str> {
    loop {
        match rest.next().ok_or("quotes are not closed")? {
            '"' => return closed(rest, argument),
            '\\' => argument.push(escaped(rest)?),
            c => argument.push(c),
        }
    }
}

fn escaped(rest: &mut Peekable<Chars<'_>>) -> Result<char, &'static str> {
    Ok(match rest.next().ok_or("quotes are not closed")? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'a' => '\u{7}',
        'x' => return hexadecimal(rest),
        c => c,
    })
}

/// `\xHH`, or an `x` where there are no two digits.
fn hexadecimal(rest: &mut Peekable<Chars<'_>>) -> Result<char, &'static str> {
    let mut ahead = rest.clone();
    let digits = [ahead.next(), ahead.next()].map(|c| c.and_then(|c| c.to_digit(16)));
    let [Some(high), Some(low)] = digits else { return Ok('x') };
    *rest = ahead;
    char::from_u32(high * 16 + low).filter(char::is_ascii).ok_or("a byte that is no ASCII character")
}

fn literal(rest: &mut Peekable<Chars<'_>>, mut argument: String) -> Result<String, &'static str> {
    loop {
        match rest.next().ok_or("quotes are not closed")? {
            '\\' if rest.peek() == Some(&'\'') => argument.extend(rest.next()),
            '\'' => return closed(rest, argument),
            c => argument.push(c),
        }
    }
}

fn closed(rest: &mut Peekable<Chars<'_>>, argument: String) -> Result<String, &'static str> {
    if rest.peek().is_none_or(|c| is_space(*c)) { Ok(argument) } else { Err("something follows the quotes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_redis_reads_them() {
        for (line, arguments) in [
            ("a x", Some(&["x"][..])),
            ("A x  y\t", Some(&["x", "y"])),
            ("a \"\"", Some(&[""])),
            ("a \"x y\"", Some(&["x y"])),
            (r#"a "\x41\"\\\q\xg""#, Some(&["A\"\\qxg"])),
            ("a 'x \\' \\n'", Some(&["x ' \\n"])),
            ("a x#y", Some(&["x#y"])),
            ("a \"x\"y", None),
            ("a \"x", None),
            ("a 'x", None),
            ("a x\"y\"", Some(&["xy"])),
        ] {
            let read = redis(line).ok().and_then(|mut directives| directives.remove("a"));
            assert_eq!(read, arguments.map(|it| it.iter().map(ToString::to_string).collect()), "{line}");
        }
    }

    #[test]
    fn comments_do_not_count_and_errors_carry_their_line() {
        assert_eq!(redis("# a b\n\n  # a \"\n").unwrap(), BTreeMap::new());
        assert_eq!(redis("a b\nc \"\n").unwrap_err().line, 2);
    }
}
