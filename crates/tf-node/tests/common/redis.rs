//! What clients of Redis ask.

use std::io::BufRead;

/// A list of words, or one line of them.
pub fn request(stream: &mut impl BufRead) -> Option<Vec<String>> {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|length| *length > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = line()?;
    let Some(count) = first.strip_prefix('*') else { return Some(first.split(' ').map(str::to_owned).collect()) };
    let mut words = Vec::new();
    for _ in 0..count.parse::<usize>().ok()? {
        line()?;
        words.push(line()?);
    }
    Some(words)
}
