//! What was probably meant.

/// Names beyond this are not compared: edit distance is quadratic, and nobody
/// mistypes a name of this length.
const LONGEST: usize = 256;

/// The candidate closest to `word`, if it is close.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let plain = normal(word);
    candidates
        .into_iter()
        .filter(|c| c.len() <= LONGEST)
        .filter_map(|c| {
            let far = distance(&plain, &normal(c));
            (far <= 1 + word.len().max(c.len()) / 4).then_some((far, c))
        })
        .min()
        .map(|(_, c)| c)
}

/// `Did you mean X?` or nothing.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(word, candidates).map(|c| format!("did you mean {c}?"))
}

/// A value as it may stand in a message: short, on one line, without control
/// or invisible characters.
pub(crate) fn quote(value: &str) -> String {
    const MOST: usize = 80;
    let mut out = String::from("\"");
    for (i, c) in value.chars().enumerate() {
        if i == MOST {
            out.push_str("...");
            break;
        }
        match c {
            ' '..='~' => out.push(c),
            // Look-alikes and invisible characters show themselves.
            _ => out.extend(c.escape_unicode()),
        }
    }
    out.push('"');
    out
}

/// A text with nothing in it that hides, looks like something else, or moves a
/// terminal's cursor.
pub(crate) fn visible(text: impl Into<String>) -> String {
    let text = text.into();
    if text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' '..='~' => out.push(c),
            _ => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// A resource's name, shortened if it is absurd.
pub(crate) fn shown(name: &str) -> String {
    if name.len() > 255 {
        quote(name)
    } else {
        visible(name)
    }
}

/// `security_groups` and `SecurityGroups` are as close to `securityGroups` as it gets.
fn normal(word: &str) -> Vec<char> {
    word.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Insertions, deletions, replacements and swaps of neighbours (optimal
/// string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, y) in b.iter().enumerate() {
            row[j + 1] = (above[j] + usize::from(x != y))
                .min(above[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = above;
        above = row;
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant_and_nothing_else() {
        let fields = ["securityGroups", "subnet", "ips", "mac"];
        for (word, expected) in [
            ("security_groups", Some("securityGroups")),
            ("securitygroup", Some("securityGroups")),
            ("sunbet", Some("subnet")),
            ("ip", Some("ips")),
            ("attachment", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, fields), expected, "{word}");
        }
    }

    #[test]
    fn quoted_values_are_short_and_show_what_hides() {
        assert_eq!(quote("web\n"), r#""web\u{a}""#);
        assert_eq!(quote("w\u{435}b"), r#""w\u{435}b""#);
        assert!(quote(&"x".repeat(1 << 20)).len() < 100);
    }
}
